#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a Prometheus for every expression of a Grafana dashboard and of a file of rules.

    dashboard.py URL DASHBOARD RULES [EMPTY]
    dashboard.py URL --alert NAME RULES

The first form prints a line for each: "ok" or what is wrong, and the expression. An expression of
the dashboard must have a value, and one of the rules must be one that Prometheus can evaluate. A
metric of ours that has never been scraped is wrong in both, but for those of trouble, which a sound
server lacks. EMPTY is a file of what may have no value, "TITLE: REASON" a line, where a panel's
title is TITLE; a panel in it that has one is "not empty".
The second form asks for an alert: exit status 0 when its expression has a value now.
"""

import json
import re
import sys
import urllib.parse
import urllib.request

ONLY_IN_TROUBLE = {'rgpu_health_finding'}


def ask(url, path, **arguments):
    query = urllib.parse.urlencode(arguments)
    try:
        with urllib.request.urlopen(f'{url}/api/v1/{path}?{query}', timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        return json.load(refused)


def of_dashboard(path):
    """(title, expression) of each panel."""
    with open(path, encoding='utf-8') as file:
        dashboard = json.load(file)
    ids = [panel['id'] for panel in dashboard['panels']]
    assert len(ids) == len(set(ids)), 'two panels have one number'
    for panel in dashboard['panels']:
        for target in panel['targets']:
            expression = target['expr'].replace('$__rate_interval', '30s')
            yield panel['title'], expression.replace('$server', '.*')


def of_rules(path):
    """(alert, expression) of each rule. Read as text: a parser of YAML is no part of Python's."""
    with open(path, encoding='utf-8') as file:
        found = re.findall(
            r'^ +- alert: (\w+)\n +expr: (?:\|\n((?:          .*\n)+)|(.*)\n)', file.read(), re.M
        )
    for alert, block, line in found:
        yield alert, ' '.join(block.split()) if block else line


def titles(path):
    with open(path, encoding='utf-8') as file:
        return {line.split(':')[0] for line in file if line.strip()}


def has_value(url, expression):
    answer = ask(url, 'query', query=expression)
    if answer['status'] != 'success':
        raise ValueError(answer['error'])
    return bool(answer['data']['result'])


def judge(url, expression, names, must_have):
    missing = set(re.findall(r'\brgpu_\w+', expression)) - names - ONLY_IN_TROUBLE
    if missing:
        return f'no series of {", ".join(sorted(missing))}'
    try:
        return 'ok' if has_value(url, expression) or not must_have else 'has no value'
    except ValueError as refused:
        return str(refused)


def judge_all(url, dashboard, rules, empty):
    names = set(ask(url, 'label/__name__/values')['data'])
    for title, expression in of_dashboard(dashboard):
        found = judge(url, expression, names, True)
        if title in empty:
            found = 'not empty' if found == 'ok' else 'ok'
        print(found, expression)
    for _, expression in of_rules(rules):
        print(judge(url, expression, names, False), expression)


def main(url, *arguments):
    if arguments[0] == '--alert':
        _, alert, rules = arguments
        sys.exit(0 if has_value(url, dict(of_rules(rules))[alert]) else 1)
    dashboard, rules, *empty = arguments
    judge_all(url, dashboard, rules, titles(*empty) if empty else set())


if __name__ == '__main__':
    main(*sys.argv[1:])
