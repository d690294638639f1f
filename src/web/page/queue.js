// SPDX-License-Identifier: Apache-2.0
// Slurm's queue: which jobs hold GPUs of the pool, which wait, why, and what would start now.
import {clock, counted, element, gpus} from './words.js';

const kOrder = {PENDING: 0, CONFIGURING: 1};

function wants(job) {
  if (!job.gpus) return `${gpus(job.licences)} GPUs`;
  const parts = [counted(job.gpus, `${job.type ? `${job.type} ` : ''}GPU`)];
  if (job.share < 100) parts.push(`${job.share} % of each`);
  if (job.nodes > 1) parts.push(`on each of ${job.nodes} nodes`);
  return parts.join(', ');
}

function reason(job) {
  const cell = element('td', {class: 'why'}, job.why ?? '');
  if (job.fits_now) cell.append(' The pool itself could give it now what it asks for.');
  if (job.alternatives)
    cell.append(
      element('p', {}, 'The pool has enough free now for:'),
      element(
        'ul',
        {},
        ...job.alternatives.map((other) =>
          element('li', {}, element('code', {}, other.options), ` ${other.meaning}`)),
      ),
    );
  return cell;
}

function row(job) {
  const name = job.job ? element('a', {href: `#job=${encodeURIComponent(job.job)}`}, job.job) : '–';
  return element(
    'tr',
    {class: job.mine && 'mine'},
    element('th', {scope: 'row'}, name),
    element('td', {}, job.user ?? "another's"),
    element('td', {}, wants(job)),
    element('td', {}, job.state),
    element('td', {}, clock(job.state === 'PENDING' ? job.submitted : job.start)),
    element('td', {}, job.end && job.state !== 'PENDING' ? clock(job.end) : ''),
    reason(job),
  );
}

export class QueueView {
  constructor() {
    this.title = 'Queue';
    this.rows = new Map(); // by what they say
    this.sum = element('p', {}, 'Slurm has not been asked yet.');
    this.body = element('tbody', {});
    this.table = element(
      'table',
      {class: 'queue', hidden: true},
      element('thead', {}, element('tr', {}, ...['Job', 'User', 'Wants or has', 'State', 'Since',
        'Ends at the latest', 'Why it waits'].map((title) => element('th', {scope: 'col'}, title)))),
      this.body,
    );
    this.node = element('div', {}, element('h2', {}, 'Queue'), this.sum,
      element('div', {class: 'wide'}, this.table));
  }

  show(queue) {
    const text = JSON.stringify(queue);
    if (text === this.drawn) return;
    this.drawn = text;
    const waits = queue.jobs.filter((job) => job.state === 'PENDING');
    const sold = queue.sold
      ? `; ${gpus(queue.sold - queue.taken)} of ${gpus(queue.sold)} GPUs are not taken by jobs` : '';
    this.sum.textContent = queue.failure
      ? `Slurm does not tell its queue: ${queue.failure}`
      : `${counted(waits.length, 'job')} waiting, ` +
        `${counted(queue.jobs.length - waits.length, 'job')} with GPUs of the pool${sold}.`;
    const order = (job) => kOrder[job.state] ?? 2;
    const sorted = [...queue.jobs].sort((a, b) =>
      order(a) - order(b) || a.submitted - b.submitted);
    this.table.hidden = !sorted.length;
    // Rows that say the same stay: whoever is about to follow a link must not lose it.
    const rows = new Map();
    for (const [i, job] of sorted.entries()) {
      const text = JSON.stringify([job, job.job ?? i]);
      rows.set(text, this.rows.get(text) ?? row(job));
    }
    this.rows = rows;
    const nodes = [...rows.values()];
    if (nodes.length !== this.body.children.length ||
      nodes.some((node, i) => node !== this.body.children[i]))
      this.body.replaceChildren(...nodes);
  }
}
