// SPDX-License-Identifier: Apache-2.0
// A job over its life: use, memory, network, and what its programs waited for.
import {LineChart} from './charts.js';
import {ask} from './stream.js';
import {clock, counted, element, size} from './words.js';

const percent = (value) => `${Math.round(value)} %`;
const rate = (value) => `${size(value)}/s`;
// The places of a sample: [time, use, blocked, throttled, network, in, out, memory].
const kCharts = [
  {title: 'Use', text: percent, most: 100, lines: [{label: 'use', color: '--use', at: 1}]},
  {title: 'Memory', text: size, lines: [{label: 'used', color: '--memory', at: 7}]},
  {
    title: 'Network',
    text: rate,
    lines: [{label: 'to the GPUs', color: '--share', at: 5},
      {label: 'from the GPUs', color: '--memory', at: 6}],
  },
  {
    title: 'Waiting',
    text: percent,
    most: 100,
    lines: [{label: "for others' turns", color: '--warn', at: 2},
      {label: 'for its own ceiling', color: '--memory', at: 3},
      {label: 'for the network', color: '--share', at: 4}],
  },
];

export class JobView {
  constructor() {
    this.title = 'Job';
    this.hidden = true; // in the navigation: a job's number leads here
    this.heading = element('h2', {});
    this.facts = element('p', {});
    this.places = element('p', {});
    this.why = element('p', {class: 'warn', role: 'status'});
    this.charts = kCharts.map((options) => new LineChart(options));
    this.plots = element('div', {class: 'charts'}, ...this.charts.map((chart) => chart.node));
    this.node = element('div', {}, this.heading, this.facts, this.places, this.why, this.plots);
  }

  async open(job) {
    if (!job || job === this.job) return;
    this.job = job;
    this.life = null;
    this.title = `Job ${job}`;
    this.heading.textContent = this.title;
    this.facts.textContent = 'is asked for';
    this.places.textContent = this.why.textContent = '';
    await this.fetch();
  }

  async fetch() {
    const {job} = this;
    try {
      const life = await ask(`v1/job?id=${encodeURIComponent(job)}`);
      if (job !== this.job) return;
      this.life = life;
      this.why.textContent = '';
    } catch (failure) {
      if (job !== this.job) return;
      this.life = null;
      this.facts.textContent = '';
      this.why.textContent = failure.message;
    }
    this.plots.hidden = !this.life;
    if (this.life) this.draw();
  }

  // The last sample of each job, as an event tells it.
  heard(samples) {
    if (!this.job) return;
    const sample = samples[this.job];
    if (!this.life || !sample !== !!this.life.ended) {
      // It has begun or ended, as far as this page knows.
      if (sample || this.life) this.fetch();
      return;
    }
    if (!sample || sample[0] === this.life.samples.at(-1)?.[0]) return;
    this.life.samples.push(sample);
    // The server keeps fewer, coarser ones of a long life.
    if (this.life.samples.length > 1000) this.fetch();
    else this.draw();
  }

  // Where its parts are, as the pool's servers say it.
  pool(servers) {
    const at = [];
    for (const server of servers)
      server.gpus.forEach((gpu, i) => {
        for (const holder of gpu.holders)
          if (holder.job === this.job || holder.lease === this.job)
            at.push(`${server.name} GPU ${i} (${holder.share} %${holder.state ? `, ${holder.state}` : ''})`);
      });
    const text = at.length ? `On ${at.join(', ')}` : '';
    if (this.places.textContent !== text) this.places.textContent = text;
  }

  draw() {
    const {life} = this;
    this.facts.textContent = [
      life.slurm ? `job ${life.job} of ${life.user}` : `a program of ${life.user}, outside Slurm`,
      `${counted(life.gpus, 'GPU')} since ${clock(life.since)}`,
      `${size(life.memory)} of memory held`,
      life.ended && `ended at ${clock(life.ended)}`,
    ].filter(Boolean).join(' · ');
    this.heading.textContent = life.slurm ? `Job ${life.job}` : `Lease ${life.job}`;
    if (!this.node.isConnected) return;
    kCharts.forEach((options, i) => {
      this.charts[i].show(life.samples.map((s) => [s[0], ...options.lines.map((l) => s[l.at])]));
    });
  }

  shown() {
    if (this.life) this.draw();
  }

  redraw() {
    for (const chart of this.charts) chart.redraw();
  }
}
