// SPDX-License-Identifier: Apache-2.0
// The stream of events. It is read by fetch(), as EventSource cannot send the token in a header,
// and in an address the token would stand in logs. The token stays in this window.

const kKey = 'rgpu-token';

export function takeTokenFromAddress() {
  const found = /^#token=([\x21-\x7e]+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(kKey, decodeURIComponent(found[1]));
  history.replaceState(null, '', location.pathname + location.search);
}

export function setToken(token) {
  sessionStorage.setItem(kKey, token);
}

function headers() {
  const token = sessionStorage.getItem(kKey);
  return token ? {Authorization: `Bearer ${token}`} : {};
}

// The JSON at that path of this site; throws an Error with the server's own words.
export async function ask(path) {
  const answer = await fetch(path, {headers: headers(), cache: 'no-store'});
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error ?? answer.statusText);
  return told;
}

function event(block) {
  const found = {name: 'message', data: ''};
  for (const line of block.split('\n'))
    if (line.startsWith('event: ')) found.name = line.slice(7);
    else if (line.startsWith('data: ')) found.data += line.slice(6);
  return found.data ? found : null;
}

async function readEvents(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    // A long event comes in many pieces: they are put together once.
    if (!value.includes('\n\n') && !(value.startsWith('\n') && parts.at(-1)?.endsWith('\n'))) {
      parts.push(value);
      continue;
    }
    const blocks = (parts.join('') + value).split('\n\n');
    parts = [blocks.pop()];
    for (const block of blocks) {
      const told = event(block);
      if (told) heard(told.name, JSON.parse(told.data));
    }
  }
}

// Listens for as long as the window is there. `heard(name, data)` gets each event; `state(what,
// why)` is 'live', 'lost' or 'refused' (then it waits for again()).
export function listen(heard, state) {
  let pause = 1000;
  let go = null;
  const again = () => go?.();
  const wait = (limit) =>
    new Promise((resolve) => {
      go = resolve;
      if (limit) setTimeout(resolve, limit);
    });
  (async () => {
    for (;;) {
      try {
        const answer = await fetch('v1/events', {headers: headers(), cache: 'no-store'});
        if (answer.status === 401 || answer.status === 403) {
          state('refused', (await answer.json()).error);
          await wait(0);
          continue;
        }
        if (!answer.ok) throw new Error(answer.statusText);
        state('live');
        pause = 1000;
        await readEvents(answer.body, heard);
        throw new Error('the connection was closed');
      } catch (failure) {
        state('lost', failure.message);
      }
      await wait(pause);
      pause = Math.min(2 * pause, 15000);
    }
  })();
  return again;
}
