// SPDX-License-Identifier: Apache-2.0
// Lines over time, drawn by Chart.js, which is fetched when the first is wanted.
import {element} from './words.js';

let library = null;
function loaded() {
  library ??= new Promise((resolve, reject) => {
    const script = element('script', {src: 'chart.js'});
    script.addEventListener('load', () => resolve(window.Chart));
    script.addEventListener('error', () =>
      reject(new Error('no charts: Chart.js is not installed beside rgpu web')));
    document.head.append(script);
  });
  return library;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// The page's colors as they are now: a canvas knows no light-dark().
function resolved(name) {
  const probe = element('span', {});
  probe.style.color = color(name);
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// chart({title, lines: [{label, color: '--use'}], text: (value) => 'as people read it', most})
export class LineChart {
  constructor(options) {
    this.options = options;
    this.now = element('p', {class: 'now'});
    this.canvas = element('canvas', {role: 'img', 'aria-label': options.title});
    this.node = element('section', {class: 'chart'}, element('h3', {}, options.title), this.now,
      element('div', {class: 'plot'}, this.canvas));
  }

  // rows: [[time, value of each line], ...]
  async show(rows) {
    this.rows = rows;
    const last = rows.at(-1);
    const words = last ? this.options.lines.map((line, i) =>
      `${line.label} ${last[i + 1] == null ? '–' : this.options.text(last[i + 1])}`).join(', ') : '';
    this.now.textContent = words;
    this.canvas.setAttribute('aria-label', `${this.options.title} over time; now ${words}`);
    try {
      const Chart = await loaded();
      if (!this.chart) this.make(Chart);
    } catch (failure) {
      this.canvas.parentElement.replaceChildren(element('p', {class: 'warn'}, failure.message));
      return;
    }
    this.chart.data.datasets.forEach((set, i) => {
      set.data = this.rows.map((row) => ({x: row[0], y: row[i + 1] ?? NaN}));
    });
    const x = this.chart.options.scales.x;
    [x.min, x.max] = [this.rows[0]?.[0], this.rows.at(-1)?.[0]];
    this.chart.update('none');
  }

  make(Chart) {
    const time = (ms) => {
      const span = (this.rows.at(-1)?.[0] ?? 0) - (this.rows[0]?.[0] ?? 0);
      if (span > 2 * 24 * 3600e3)
        return new Date(ms).toLocaleDateString(undefined, {month: 'short', day: 'numeric'});
      return new Date(ms).toLocaleTimeString(undefined,
        {timeStyle: span < 600e3 ? 'medium' : 'short'});
    };
    const {lines, text, most} = this.options;
    const ticks = {color: resolved('--soft'), maxRotation: 0};
    const grid = {color: resolved('--line')};
    this.chart = new Chart(this.canvas, {
      type: 'line',
      data: {
        datasets: lines.map((line) => ({
          label: line.label,
          data: [],
          borderColor: resolved(line.color),
          backgroundColor: resolved(line.color),
          borderWidth: 1.5,
          pointRadius: 0,
          spanGaps: false,
        })),
      },
      options: {
        animation: false,
        parsing: false,
        normalized: true,
        maintainAspectRatio: false,
        interaction: {mode: 'nearest', axis: 'x', intersect: false},
        scales: {
          x: {type: 'linear', ticks: {...ticks, maxTicksLimit: 6, callback: time}, grid},
          y: {min: 0, max: most, ticks: {...ticks, maxTicksLimit: 5, callback: text}, grid},
        },
        plugins: {
          legend: {display: lines.length > 1, labels: {color: resolved('--text'), boxHeight: 1}},
          tooltip: {
            callbacks: {
              title: ([point]) => new Date(point.parsed.x).toLocaleString(),
              label: (point) => `${point.dataset.label}: ${text(point.parsed.y)}`,
            },
          },
        },
      },
    });
  }

  // Anew, with the colors of now.
  redraw() {
    this.chart?.destroy();
    this.chart = null;
    if (this.rows) this.show(this.rows);
  }

  destroy() {
    this.chart?.destroy();
    this.chart = null;
  }
}
