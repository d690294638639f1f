# SPDX-License-Identifier: Apache-2.0
"""web_live.py ROOT ADDRESS: a page that is open while the pool and rgpu web change.

Each line of stdin is an expression of JavaScript to wait for, or "!" and a step:
  !go [REST OF ADDRESS]  !type TEXT  !key NAME  !click SELECTOR  !messages  !requests
  !contrast light|dark  !shot NAME
Answers each with one line: "ok", what there is to say, or "in vain: ...".
"""
import os
import sys

root, address = sys.argv[1:]
sys.path.insert(0, f'{root}/t/lib')
from browser import Browser, Refused  # noqa: E402


def step(browser, line):
    if not line.startswith('!'):
        return browser.until(line) and 'ok'
    name, _, rest = line[1:].partition(' ')
    if name == 'messages':
        return ' | '.join(browser.messages()) or 'ok'
    if name == 'requests':
        asked = {a for a in browser.requested() if a.startswith('http')}
        return ' '.join(a for a in asked if not a.startswith(address)) or 'ok'
    if name == 'contrast':
        browser.theme(rest)
        with open(f'{root}/t/lib/contrast.js', encoding='utf-8') as script:
            return ' | '.join(browser.js(script.read())) or 'ok'
    if name == 'shot':
        if folder := os.environ.get('RGPU_SCREENSHOTS'):
            browser.screenshot(f'{folder}/{rest}.png')
        return 'ok'
    {
        'go': lambda: browser.go(address + rest),
        'type': lambda: browser.keys(*rest),
        'key': lambda: browser.keys(rest),
        'click': lambda: browser.click(rest),
    }[name]()
    return 'ok'


with Browser() as page:
    for line in sys.stdin:
        try:
            print(step(page, line.rstrip('\n')), flush=True)
        except (TimeoutError, Refused) as failure:
            print('in vain:', str(failure).replace('\n', ' '), flush=True)
