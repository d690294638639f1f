# SPDX-License-Identifier: Apache-2.0
"""web_page.py ROOT ADDRESS: looks at rgpu web's page of made_up_pool.py's 200 servers in Chromium.

Prints "ok NAME" or "not ok NAME: why" for each thing that it looks at, and the figures. With
$RGPU_SCREENSHOTS, pictures go into that folder.
"""
import os
import statistics
import sys
import urllib.parse

root, address = sys.argv[1:]
sys.path.insert(0, f'{root}/t/lib')
from browser import Browser  # noqa: E402

with open(f'{root}/t/lib/contrast.js', encoding='utf-8') as file:
    CONTRAST = file.read()
ACTIVE = 'document.activeElement.getAttribute("aria-label") ?? document.activeElement.id'
SHOWN = '[...document.querySelectorAll(".server")].filter((s) => !s.hidden).length'
FIRST = 1000  # ms until the first paint, and until all cells are painted
UPDATE = 50  # ms from an event to its paint; half of them may take twice as long


def check(name, right, why=''):
    print(f'ok {name}' if right else f'not ok {name}: {why}', flush=True)


def same(name, got, wanted):
    check(name, got == wanted, f'{got!r} instead of {wanted!r}')


def picture(browser, name):
    if folder := os.environ.get('RGPU_SCREENSHOTS'):
        browser.screenshot(f'{folder}/{name}.png')


def observe(browser):
    """Notes what the page measures, from the start of each document on."""
    browser.cdp(
        'Page.addScriptToEvaluateOnNewDocument',
        source='''window.noted = [];
        new PerformanceObserver((list) => noted.push(...list.getEntries().map((e) =>
            [e.name, e.startTime, e.startTime + e.duration])))
            .observe({entryTypes: ['measure', 'paint']});''',
    )


def looks(browser):
    browser.go(address)
    browser.until('document.querySelectorAll(".gpu").length === 1600', limit=60)
    same('the page shows 200 servers and 1,600 GPUs', browser.js(SHOWN), 200)
    same('the token is no longer in the address', '#' in browser.js('location.href'), False)
    same('it is live', browser.text('#live'), 'live')
    browser.until('/in use on average/.test(document.querySelector(".facts").innerText)')
    check(
        'the sum is there',
        '1,600 GPUs of 200 servers' in browser.text('.facts'),
        browser.text('.facts'),
    )
    cell = 'document.querySelectorAll(".gpu")[a[0]]'
    first = browser.js(f'{cell}.getAttribute("aria-label")', 0)
    check(
        'a cell says who holds it, use, memory and temperature',
        all(word in first for word in ('gpu0001 GPU 0: user0 1000 ', ' use ', ' GiB used', ' °C')),
        first,
    )
    same(
        'a drained GPU says so',
        browser.js(f'{cell}.innerText.split("\\n")[0]', 7),
        'drained: new fans',
    )
    same(
        'names are text, never markup',
        browser.js(f'{cell}.querySelector(".who").innerText', 15),
        '<img src=x onerror=window.pwned=1> 100 %',
    )
    browser.js(f'{cell}.click()', 15)
    table = browser.text('.detail table')
    check('... in full, too', '<img src=x onerror' in table and '<b>cn</b>' in table, table)
    same('... and nothing of them has run', browser.js('typeof window.pwned'), 'undefined')
    picture(browser, 'detail')
    browser.keys('Escape')


def by_keyboard(browser):
    browser.js('document.activeElement.blur()')
    browser.keys('/')
    same('/ goes to the search', browser.js(ACTIVE), 'Show servers with')
    browser.keys(*'gpu0007')
    browser.until(f'{SHOWN} === 1')
    check('it finds a server', True)
    browser.keys('Tab')
    same(
        'Tab goes on to the GPUs', browser.js('document.activeElement.className.slice(0, 3)'), 'gpu'
    )
    browser.js('document.getElementById("find").focus()')
    browser.keys(*['\ue003'] * 7, *'drained')
    browser.until(f'{SHOWN} === 1')
    check('... and what is drained', True)
    browser.keys(*['\ue003'] * 7)
    browser.until(f'{SHOWN} === 200')
    browser.js('document.querySelector(".gpu").focus()')
    for keys, wanted in (
        (['ArrowRight'], 'gpu0001 GPU 1:'),
        (['ArrowDown', 'ArrowDown'], 'gpu0003 GPU 1:'),
        (['End'], 'gpu0003 GPU 7:'),
        (['ArrowRight'], 'gpu0004 GPU 0:'),
        (['ArrowLeft'], 'gpu0003 GPU 7:'),
        (['PageDown'], 'gpu0013 GPU 7:'),
        (['Shift+End'], 'gpu0200 GPU 7:'),
        (['Shift+Home'], 'gpu0001 GPU 0:'),
    ):
        browser.keys(*keys)
        at = browser.js(ACTIVE)
        check(f'{" ".join(keys)} goes to {wanted[:-1]}', at.startswith(wanted), at)
    browser.keys('Enter')
    same('Enter shows it in full', browser.text('.detail h2'), 'gpu0001, GPU 0')
    browser.keys('Escape')
    same('Escape hides that', browser.js('document.querySelector(".detail").hidden'), True)


def is_readable(browser):
    for theme in ('light', 'dark'):
        browser.theme(theme)
        browser.js('document.querySelector(".gpu").click()')
        browser.until('!document.querySelector(".detail").hidden')
        same(f'{theme}: every text can be read', browser.js(CONTRAST), [])
        picture(browser, f'pool-{theme}')
        browser.keys('Escape')
    back = 'getComputedStyle(document.body).backgroundColor'
    dark = browser.js(back)
    browser.theme('light')
    check('dark is another', browser.js(back) != dark, dark)
    browser.click('#theme')
    browser.click('#theme')
    same('a button sets it in the place of the system', browser.js(back), dark)
    browser.click('#theme')
    style = 'document.documentElement.style'
    browser.js(f'{style}.setProperty("--soft", "#bbb")')
    check('a pale text would be found', browser.js(CONTRAST) != [], 'it was not')
    browser.js(f'{style}.removeProperty("--soft")')


def fits(browser):
    for width in (1280, 768, 360):
        browser.window(width, 740)
        wide = browser.js('document.documentElement.scrollWidth')
        check(f'{width} pixels are wide enough', wide <= width, f'{wide} are needed')
    narrow = browser.js(
        '''[...document.querySelectorAll('.gpu')].slice(0, 8).every((gpu) => {
        const {left, right, width} = gpu.getBoundingClientRect();
        return width >= 60 && left >= 0 && right <= 360; })'''
    )
    same('... for each GPU of a server', narrow, True)
    picture(browser, 'narrow')
    browser.window(1280, 900)


def is_fast(browser):
    first, cells = [], []
    for _ in range(5):
        browser.go('about:blank')
        browser.go(address)
        browser.until('noted.some(([name]) => name === "rgpu-pool")', limit=60)
        noted = browser.js('noted')
        first.append(next(at for name, at, _ in noted if name == 'first-contentful-paint'))
        cells.append(next(end for name, _, end in noted if name == 'rgpu-pool'))
    browser.js('noted.length = 0')
    browser.until('noted.filter(([name]) => name === "rgpu-changes").length >= 20', limit=60)
    updates = [end - start for name, start, end in browser.js('noted') if name == 'rgpu-changes']
    updates = updates[:20]
    print(
        f'first paint {min(first):.0f} ms, all cells {min(cells):.0f} ms (best of 5; worst '
        f'{max(cells):.0f}); an update {statistics.median(updates):.0f} ms (median of 20; best '
        f'{min(updates):.0f}, worst {max(updates):.0f})'
    )
    check(f'the first paint comes within {FIRST} ms', min(first) <= FIRST, first)
    check(f'all 1,600 cells are there within {FIRST} ms', min(cells) <= FIRST, cells)
    check(
        f'an update of all 200 servers is painted within {UPDATE} ms',
        min(updates) <= UPDATE and statistics.median(updates) <= 2 * UPDATE,
        updates,
    )


with Browser() as page:
    observe(page)
    looks(page)
    by_keyboard(page)
    is_readable(page)
    fits(page)
    is_fast(page)
    same('the console has nothing to say', page.messages(), [])
    hosts = {urllib.parse.urlsplit(a).netloc for a in page.requested() if a.startswith('http')}
    same('nothing was asked of others', hosts, {urllib.parse.urlsplit(address).netloc})
