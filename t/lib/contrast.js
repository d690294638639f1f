// SPDX-License-Identifier: Apache-2.0
// Texts of the page that are hard to read: [what is wrong, ...]. WCAG 2.1, 1.4.3: a ratio of 4.5,
// and 3 for large text. The background is that of the nearest ancestors that have one. Also what
// axe would say without a picture: controls without a name, ids that stand twice, images and a
// document without their texts.
(() => {
  const wrong = [];
  const number = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return {rgb: parts.slice(0, 3), alpha: parts[3] ?? 1};
  };
  // The browser turns any notation into one of 8 bits.
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (color) => {
    if (/^rgba?\(/.test(color)) return number(color);
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return {rgb: [r, g, b], alpha: a / 255};
  };
  const over = (front, back) => front.rgb.map((c, i) => c * front.alpha + back[i] * (1 - front.alpha));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const dark = getComputedStyle(document.body).colorScheme === 'dark';
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      layers.push(layer);
      if (layer.alpha === 1) break;
    }
    return layers.reverse().reduce((back, layer) => over(layer, back), dark ? [0, 0, 0] : [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  let texts = 0;
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility({visibilityProperty: true}) ||
      node.closest('script, noscript')) continue;
    texts++;
    const style = getComputedStyle(node);
    const back = behind(node);
    const found = ratio(over(rgba(style.color), back), back);
    const pixels = parseFloat(style.fontSize);
    const large = pixels >= 24 || (pixels >= 18.66 && style.fontWeight >= 700);
    const name = `${node.tagName.toLowerCase()}.${node.className}`;
    if (found < (large ? 3 : 4.5) && !seen.has(name)) {
      seen.add(name);
      wrong.push(`${name} "${text.data.trim().slice(0, 20)}": ${found.toFixed(2)}`);
    }
  }
  if (!texts) wrong.push('there is no text');
  const named = (node) => node.getAttribute('aria-label') || node.innerText?.trim() || node.title ||
    document.querySelector(`label[for="${node.id}"]`)?.innerText || node.getAttribute('alt');
  for (const node of document.querySelectorAll(
    'a[href], button, input, select, img, canvas, [role=gridcell], [role=grid], nav'))
    if (node.checkVisibility() && !named(node)) wrong.push(`no name: ${node.outerHTML.slice(0, 60)}`);
  for (const node of document.querySelectorAll('input'))
    if (node.checkVisibility() && node.placeholder &&
      ratio(rgba(getComputedStyle(node, '::placeholder').color).rgb, behind(node)) < 4.5)
      wrong.push(`placeholder of ${node.id}`);
  const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`id ${id} twice`);
  if (!document.documentElement.lang) wrong.push('the document has no language');
  if (!document.title) wrong.push('the document has no title');
  if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
  if (document.querySelectorAll('main').length !== 1) wrong.push('not one main');
  return wrong;
})()
