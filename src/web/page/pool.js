// SPDX-License-Identifier: Apache-2.0
// The pool at a glance: a row a server, a cell a GPU, and the GPU that is chosen in full.
import {clock, counted, element, gpus, setAttribute, setText, share, size, table} from './words.js';

const kHot = 85; // degrees, as rgpu health warns

function label(holder) {
  if (!holder.user) return "another's";
  return holder.job ? `${holder.user} ${holder.job}` : `${holder.user} (${holder.host})`;
}

function whoText(gpu) {
  if (gpu.drained) return `drained: ${gpu.drained}`;
  if (!gpu.holders.length) return 'free';
  const known = gpu.holders.find((h) => h.mine) ?? gpu.holders.find((h) => h.user);
  const more = gpu.holders.length - 1;
  if (!known) return `in use ${100 - gpu.free_share} %`;
  return `${known.user} ${share(known)}${more ? ` +${more}` : ''}`;
}

function howText(gpu) {
  const parts = [gpu.use != null && `use ${gpu.use} %`, gpu.celsius != null && `${gpu.celsius}°`];
  return parts.filter(Boolean).join(' · ') || '–';
}

const heldMemory = (gpu) => gpu.holders.reduce((sum, h) => sum + (h.memory ?? 0), 0);

// What a screen reader says of a cell.
function spoken(server, index, gpu) {
  const who = gpu.holders.map((h) => `${label(h)} ${share(h)}`).join(', ') || 'free';
  const used = gpu.memory_used != null ? `, memory ${size(gpu.memory_used)} used` : '';
  return `${server} GPU ${index}: ${gpu.drained ? `drained, ${gpu.drained}; ` : ''}${who}` +
    `${gpu.use != null ? `, use ${gpu.use} %` : ''}${used}` +
    `${gpu.celsius != null ? `, ${gpu.celsius} °C` : ''}`;
}

function jobLink(holder) {
  if (!holder.lease) return '';
  const to = (name, text) => element('a', {href: `#job=${encodeURIComponent(name)}`}, text);
  if (!holder.job) return to(holder.lease, `pid ${holder.pid} on ${holder.host}`);
  const both = element('span', {}, to(holder.job, holder.job));
  if (holder.node) both.append(` on ${holder.node}`);
  return both;
}

class Cell {
  constructor(row, index) {
    this.who = element('span', {class: 'who'});
    this.how = element('span', {class: 'how'});
    this.bars = element('span', {class: 'bars'});
    this.node = element('div', {class: 'gpu', role: 'gridcell', tabindex: '-1'},
      this.who, this.how, this.bars);
    this.node.cell = this;
    this.row = row;
    this.index = index;
    this.drawn = {};
  }

  set(name, value, write) {
    if (this.drawn[name] === value) return;
    this.drawn[name] = value;
    write(value);
  }

  show(server, gpu) {
    const bar = (name) => (value) => this.bars.style.setProperty(name, value);
    const memory = gpu.memory_used ?? heldMemory(gpu);
    this.set('who', whoText(gpu), (text) => setText(this.who, text));
    this.set('how', howText(gpu), (text) => setText(this.how, text));
    this.set('s', `${100 - gpu.free_share}%`, bar('--s'));
    this.set('u', `${gpu.use ?? 0}%`, bar('--u'));
    this.set('m', `${Math.round((100 * memory) / gpu.memory)}%`, bar('--m'));
    this.set('spoken', spoken(server, this.index, gpu),
      (text) => this.node.setAttribute('aria-label', text));
    this.set('class', 'gpu' + (gpu.drained ? ' drained' : '') + (gpu.celsius >= kHot ? ' hot' : '') +
      (gpu.holders.some((h) => h.mine) ? ' mine' : ''), (name) => (this.node.className = name));
  }
}

class Row {
  constructor(number) {
    this.number = number;
    this.title = element('span', {});
    this.note = element('small', {});
    this.gpus = element('div', {class: 'gpus', role: 'presentation'});
    this.node = element('div', {class: 'server', role: 'row'},
      element('div', {class: 'name', role: 'rowheader'}, this.title, this.note), this.gpus);
    this.cells = [];
  }

  show(server) {
    setText(this.title, server.name);
    this.node.classList.toggle('silent', !!server.failure);
    setText(this.note, server.failure ? 'does not answer' : (server.gpus[0]?.name ?? 'no GPU'));
    setAttribute(this.note, 'title', server.failure ?? null);
    while (this.cells.length > server.gpus.length) this.cells.pop().node.remove();
    while (this.cells.length < server.gpus.length) {
      const cell = new Cell(this, this.cells.length);
      this.cells.push(cell);
      this.gpus.append(cell.node);
    }
    server.gpus.forEach((gpu, i) => this.cells[i].show(server.name, gpu));
  }

  matches(server, words) {
    const text = [server.name, server.failure && 'silent',
      ...server.gpus.flatMap((g) => [g.name, g.drained && `drained ${g.drained}`,
        ...g.holders.flatMap((h) => [h.user, h.job, h.node])])].join(' ').toLowerCase();
    return words.every((word) => text.includes(word));
  }
}

export class PoolView {
  constructor() {
    this.title = 'Pool';
    this.servers = [];
    this.rows = [];
    this.chosen = null;
    this.facts = element('ul', {class: 'facts'});
    this.find = element('input', {
      type: 'search', id: 'find', placeholder: 'server, user, job, drained ... ( / )',
      'aria-label': 'Show servers with', size: 34,
    });
    this.none = element('p', {hidden: true}, 'No server has that.');
    this.grid = element('div', {role: 'grid', 'aria-label': 'GPUs by server', id: 'pool'});
    this.detail = element('section', {class: 'detail', hidden: true, 'aria-live': 'off'});
    this.heading = element('h2', {});
    this.about = element('p', {});
    this.silent = element('p', {class: 'warn'});
    this.parts = element('div', {});
    const close = element('button', {type: 'button'}, 'Close');
    close.addEventListener('click', () => {
      const cell = this.chosen;
      this.choose(null);
      cell.node.focus();
    });
    this.detail.append(this.heading, this.about, this.silent, this.parts, close);
    const legend = element('p', {class: 'legend'}, element('span', {class: 'share'}, 'share held'),
      element('span', {class: 'use'}, 'use'), element('span', {class: 'memory'}, 'memory'));
    this.node = element('div', {}, this.facts, element('div', {class: 'tools'}, this.find, legend),
      this.detail, this.none, this.grid);
    this.find.addEventListener('input', () => this.filter());
    this.grid.addEventListener('click', (e) => this.choose(e.target.closest('.gpu')?.cell));
    this.grid.addEventListener('keydown', (e) => this.key(e));
    this.node.addEventListener('keydown', (e) => {
      if (e.key === 'Escape') this.choose(null);
    });
  }

  all(servers) {
    this.servers = servers;
    const fresh = document.createDocumentFragment();
    while (this.rows.length < servers.length) {
      const row = new Row(this.rows.length);
      this.rows.push(row);
      fresh.append(row.node);
    }
    while (this.rows.length > servers.length) this.rows.pop().node.remove();
    servers.forEach((server, i) => this.rows[i].show(server));
    this.grid.append(fresh);
    this.shown();
    this.reachable();
  }

  changes(changed) {
    for (const [i, server] of Object.entries(changed)) {
      this.servers[i] = server;
      this.rows[i].show(server);
    }
    if (Object.keys(changed).length) this.shown();
  }

  shown() {
    this.sum();
    if (this.find.value) this.filter();
    if (this.chosen) this.showDetail();
  }

  sum() {
    let all = 0, free = 0, drained = 0, use = 0, measured = 0;
    const users = new Set();
    for (const server of this.servers)
      for (const gpu of server.gpus) {
        all++;
        if (gpu.drained) drained++;
        else if (!server.failure) free += gpu.free_share;
        if (gpu.use != null) [use, measured] = [use + gpu.use, measured + 1];
        for (const holder of gpu.holders) if (holder.user) users.add(holder.user);
      }
    const silent = this.servers.filter((s) => s.failure).length;
    const facts = [
      [all.toLocaleString('en'), `GPUs of ${counted(this.servers.length, 'server')}`],
      [gpus(free), 'free'],
      measured && [`${Math.round(use / measured)} %`, 'in use on average'],
      users.size && [users.size.toLocaleString('en'), users.size === 1 ? 'user' : 'users'],
      drained && [drained.toLocaleString('en'), 'drained'],
      silent && [silent.toLocaleString('en'), silent === 1 ? 'silent server' : 'silent servers'],
    ].filter(Boolean);
    const text = facts.map((f) => f.join(' ')).join('; ');
    if (text === this.summed) return;
    this.summed = text;
    this.facts.replaceChildren(...facts.map(([n, what]) =>
      element('li', {}, element('b', {}, n), ` ${what}`)));
  }

  filter() {
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let some = false;
    this.rows.forEach((row, i) => {
      row.node.hidden = words.length > 0 && !row.matches(this.servers[i], words);
      some ||= !row.node.hidden;
    });
    this.none.hidden = some || !this.rows.length;
    this.reachable();
  }

  // Tab comes to one cell of the grid; where that is not shown, to the first that is.
  reachable() {
    if (this.grid.querySelector('.server:not([hidden]) [tabindex="0"]')) return;
    this.grid.querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1');
    this.grid.querySelector('.server:not([hidden]) .gpu')?.setAttribute('tabindex', '0');
  }

  choose(cell) {
    if (cell === undefined) return;
    this.chosen?.node.removeAttribute('aria-selected');
    this.chosen = cell;
    this.detail.hidden = !cell;
    if (!cell) return;
    cell.node.setAttribute('aria-selected', 'true');
    this.goTo(cell);
    this.showDetail();
  }

  // Written in place: whoever is about to follow a link must not lose it.
  showDetail() {
    const server = this.servers[this.chosen.row.number];
    const gpu = server.gpus[this.chosen.index];
    if (!gpu) return this.choose(null);
    const facts = [gpu.name, `${gpus(gpu.free_share)} free`, `${size(gpu.memory)} of memory`,
      gpu.memory_used != null && `${size(gpu.memory_used)} used`,
      gpu.use != null && `use ${gpu.use} %`, gpu.celsius != null && `${gpu.celsius} °C`,
      gpu.drained && `drained: ${gpu.drained}`].filter(Boolean).join(' · ');
    setText(this.heading, `${server.name}, GPU ${this.chosen.index}`);
    setText(this.about, facts);
    setText(this.silent, server.failure ? `No answer: ${server.failure}` : '');
    const numbers = gpu.holders.map((h) => [share(h), h.memory ? size(h.memory) : '',
      h.memory_used != null ? size(h.memory_used) : '', h.use != null ? `${h.use} %` : '',
      h.state ?? '', h.since ? clock(h.since) : '']);
    const who = JSON.stringify(gpu.holders.map((h) => [h.lease, h.user, h.job, h.node, h.pid]));
    if (who !== this.whose) {
      this.whose = who;
      this.parts.replaceChildren(this.holders(gpu.holders, numbers));
    } else {
      this.parts.querySelectorAll('tbody tr').forEach((row, i) =>
        numbers[i].forEach((text, at) => setText(row.children[at + 2], text)));
    }
  }

  holders(holders, numbers) {
    if (!holders.length) return element('p', {}, 'Nobody holds it.');
    const columns = [{title: 'User'}, {title: 'Job'}, {title: 'Share', number: true},
      {title: 'Memory', number: true}, {title: 'Used', number: true}, {title: 'Use', number: true},
      {title: 'State'}, {title: 'Since'}];
    return table(columns,
      holders.map((h, i) => [h.user ?? "another's", jobLink(h), ...numbers[i]]));
  }

  goTo(cell) {
    this.grid.querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1');
    cell.node.setAttribute('tabindex', '0');
    cell.node.focus();
  }

  key(e) {
    const cell = e.target.closest('.gpu')?.cell;
    if (!cell || e.ctrlKey || e.altKey || e.metaKey) return;
    const rows = this.rows.filter((row) => !row.node.hidden && row.cells.length);
    const at = rows.indexOf(cell.row);
    const beside = (step) => rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
    const below = (step) => {
      const {cells} = beside(step);
      return cells[Math.min(cell.index, cells.length - 1)];
    };
    const to = {
      ArrowRight: () => cell.row.cells[cell.index + 1] ?? beside(1).cells[0],
      ArrowLeft: () => cell.row.cells[cell.index - 1] ?? beside(-1).cells.at(-1),
      ArrowDown: () => below(1),
      ArrowUp: () => below(-1),
      PageDown: () => below(10),
      PageUp: () => below(-10),
      Home: () => (e.shiftKey ? rows[0] : cell.row).cells[0],
      End: () => (e.shiftKey ? rows.at(-1) : cell.row).cells.at(-1),
    }[e.key];
    if (to) this.goTo(to());
    else if (e.key === 'Enter' || e.key === ' ') this.choose(cell);
    else return;
    e.preventDefault();
  }
}
