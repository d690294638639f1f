// SPDX-License-Identifier: Apache-2.0
// Elements and numbers as people read them. Texts become text nodes, never markup.

// element('td', {class: 'number'}, 'text', other, ...)
export function element(tag, attributes, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (value === true) made.setAttribute(name, '');
    else if (value !== false && value != null) made.setAttribute(name, value);
  made.append(...content.filter((part) => part != null));
  return made;
}

// Writes only what differs: nothing is laid out anew for what stays.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
export function setAttribute(node, name, value) {
  if (value == null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${bytes >= 100 || unit < 2 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

export function counted(number, what) {
  return `${number.toLocaleString('en')} ${what}${number === 1 ? '' : 's'}`;
}

// Whole GPUs as they are, parts with two digits.
export function gpus(hundredths) {
  return (hundredths / 100).toLocaleString('en', {maximumFractionDigits: 2});
}

export function share(holder) {
  return holder.most > holder.share ? `${holder.share}–${holder.most} %` : `${holder.share} %`;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleString(undefined, {
    dateStyle: 'short',
    timeStyle: 'short',
  });
}

export function table(columns, rows) {
  const cell = (tag, text, column) =>
    element(tag, {class: column.number && 'number', scope: tag === 'th' && 'col'}, text);
  return element(
    'table',
    {},
    element('thead', {}, element('tr', {}, ...columns.map((c) => cell('th', c.title, c)))),
    element(
      'tbody',
      {},
      ...rows.map((row) => element('tr', {}, ...row.map((text, i) => cell('td', text, columns[i])))),
    ),
  );
}
