// SPDX-License-Identifier: Apache-2.0
// What the pool, or one of its servers, did in the last day; in weeks and months where rgpu web
// knows a Prometheus.
import {LineChart} from './charts.js';
import {ask} from './stream.js';
import {element, size} from './words.js';

const number = (value) => value.toLocaleString('en', {maximumFractionDigits: 1});
const kSpans = [{days: 1, text: 'Day'}, {days: 7, text: 'Week'}, {days: 30, text: 'Month'}];
const kPeriod = 60e3; // a minute is the finest that there is
const kPatience = 15e3; // with Prometheus
// The places of a point: [time, gpus, held, use, memory, memory_held, memory_used, drained, waiting].
const kCharts = [
  {
    title: 'GPUs',
    text: number,
    lines: [{label: 'there', color: '--soft', at: 1}, {label: 'held', color: '--share', at: 2},
      {label: 'in use', color: '--use', at: 3}, {label: 'drained', color: '--warn', at: 7}],
  },
  {
    title: 'Memory',
    text: size,
    lines: [{label: 'there', color: '--soft', at: 4}, {label: 'held', color: '--share', at: 5},
      {label: 'used', color: '--memory', at: 6}],
  },
  {
    title: 'Waiting',
    text: number,
    lines: [{label: 'GPUs that jobs wait for', color: '--warn', at: 8}],
  },
];

export class HistoryView {
  constructor() {
    this.title = 'History';
    this.days = 1;
    this.server = element('select', {'aria-label': 'Of which server'},
      element('option', {value: ''}, 'all servers'));
    this.spans = kSpans.map(({days, text}) => {
      const button = element('button', {type: 'button', hidden: days > 1}, text);
      button.addEventListener('click', () => this.choose(days));
      return {days, button};
    });
    this.why = element('p', {class: 'warn', role: 'status'});
    this.charts = kCharts.map((options) => new LineChart(options));
    this.plots = element('div', {class: 'charts', hidden: true},
      ...this.charts.map((chart) => chart.node));
    this.node = element('div', {}, element('h2', {}, 'History'),
      element('div', {class: 'tools'}, this.server, ...this.spans.map(({button}) => button)),
      this.why, this.plots);
    this.server.addEventListener('change', () => this.fetch());
    this.choose(1);
  }

  choose(days) {
    this.days = days;
    for (const span of this.spans)
      span.button.setAttribute('aria-pressed', String(span.days === days));
    if (this.node.isConnected) this.fetch();
  }

  pool(servers) {
    const names = ['', ...servers.map((server) => server.name)];
    if (names.join('\n') === this.names) return;
    this.names = names.join('\n');
    const chosen = this.server.value;
    this.server.replaceChildren(...names.map((name) =>
      element('option', {value: name, selected: name === chosen}, name || 'all servers')));
  }

  async fetch() {
    const {days} = this;
    const server = this.server.value;
    const asked = (this.asked = {});
    const path = `v1/history?days=${days}&server=${encodeURIComponent(server)}`;
    try {
      let told = await ask(path);
      // Prometheus is being asked.
      for (const end = Date.now() + kPatience; !told.points && Date.now() < end;) {
        await new Promise((resolve) => setTimeout(resolve, 300));
        if (asked !== this.asked) return;
        told = await ask(path);
      }
      if (asked !== this.asked) return;
      if (!told.points) throw new Error('Prometheus has not answered yet');
      for (const span of this.spans) span.button.hidden = span.days > told.most_days;
      this.points = told.points;
      this.why.textContent = told.points.length ? '' :
        'Nothing is known of that time yet: points come every three minutes.';
      this.draw();
    } catch (failure) {
      if (asked === this.asked) this.why.textContent = failure.message;
    }
  }

  draw() {
    if (!this.node.isConnected) return;
    this.plots.hidden = !this.points?.length;
    if (this.plots.hidden) return;
    kCharts.forEach((options, i) => {
      // What nobody knows has no chart: who waits, for one server or without Slurm.
      const known = this.points.some((p) => options.lines.some((l) => p[l.at] != null));
      this.charts[i].node.hidden = !known;
      if (known)
        this.charts[i].show(this.points.map((p) => [p[0], ...options.lines.map((l) => p[l.at])]));
    });
  }

  shown() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (this.node.isConnected) this.fetch();
      else clearInterval(this.timer);
    }, kPeriod);
    this.fetch();
  }

  redraw() {
    for (const chart of this.charts) chart.redraw();
  }
}
