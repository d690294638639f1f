// SPDX-License-Identifier: Apache-2.0
// The page: takes the stream's events to the views, and shows one of them.
import {HistoryView} from './history.js';
import {JobView} from './job.js';
import {PoolView} from './pool.js';
import {QueueView} from './queue.js';
import {listen, setToken, takeTokenFromAddress} from './stream.js';
import {element, setText} from './words.js';

const byId = (id) => document.getElementById(id);
const pool = new PoolView();
const queue = new QueueView();
const history = new HistoryView();
const job = new JobView();
const views = {pool, queue, history, job};

// --- which view, by the address

function show() {
  const [name, which] = location.hash.slice(1).split('=');
  const view = views[name] ?? pool;
  if (byId('main').firstChild !== view.node) byId('main').replaceChildren(view.node);
  if (which) view.open?.(decodeURIComponent(which));
  view.shown?.();
  document.title = `rgpu: ${view.title}`;
  for (const link of byId('nav').children)
    if (views[link.hash.slice(1)] === view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
}

// --- light, dark, or as the system is

const themes = ['system', 'light', 'dark'];
function setTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId('theme'), `Theme: ${theme}`);
  localStorage.setItem('rgpu-theme', theme);
  job.redraw();
  history.redraw();
}
setTheme(themes.find((theme) => theme === localStorage.getItem('rgpu-theme')) ?? 'system');
byId('theme').addEventListener('click', () => {
  const now = localStorage.getItem('rgpu-theme');
  setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
});

// --- events

// For whoever measures: how long an event took until it was painted. Nothing is kept of it.
function measure(name, start) {
  requestAnimationFrame(() => {
    const framed = performance.now();
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      performance.measure(name, {start, end: performance.now(), detail: {framed}});
      performance.clearMeasures(name);
    };
    channel.port2.postMessage(null);
  });
}

const events = {
  pool(told) {
    pool.all(told.servers);
    job.pool(pool.servers);
    history.pool(pool.servers);
    const {user, all} = told.viewer;
    setText(byId('viewer'), user ? `${user}${all ? ', administrator' : ''}` : '');
  },
  changes(told) {
    pool.changes(told.servers);
    job.pool(pool.servers);
  },
  queue: (told) => queue.show(told),
  jobs: (told) => job.heard(told),
};

takeTokenFromAddress();
for (const [name, view] of Object.entries(views))
  if (!view.hidden) byId('nav').append(element('a', {href: `#${name}`}, view.title));
show();
addEventListener('hashchange', show);
addEventListener('keydown', (e) => {
  const typing = e.target.matches('input, textarea, select');
  if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey && !byId('main').hidden) {
    location.hash = '#pool';
    show();
    pool.find.focus();
    e.preventDefault();
  }
});

const again = listen(
  (name, data) => {
    const start = performance.now();
    events[name]?.(data);
    measure(`rgpu-${name}`, start);
  },
  (what, why) => {
    setText(byId('live'), {live: 'live', lost: `no connection (${why}); trying again`,
      refused: ''}[what]);
    byId('live').className = what;
    byId('ask').hidden = what !== 'refused';
    byId('main').hidden = what === 'refused';
    if (what === 'refused') {
      setText(byId('refused'), sessionStorage.getItem('rgpu-token') ? why : '');
      byId('token').focus();
    }
  },
);
byId('ask').addEventListener('submit', (e) => {
  e.preventDefault();
  setToken(byId('token').value.trim());
  byId('token').value = '';
  again();
});
