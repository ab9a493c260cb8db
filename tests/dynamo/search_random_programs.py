"""Looks for random functions that do something else compiled, and makes them small; the tests run a slice of it.

`python tests/dynamo/search_random_programs.py --count 2000 --seed 1`
"""

import argparse
import ast
import random

from random_programs import check, compiles, written


def body_of(text):
    return text[text.index("def f(x, y") :]


def smaller(text):
    """Programs with a statement of f left out, or in place of a compound one its parts."""
    tree = ast.parse(text)
    lists = [
        (node, field)
        for function in [n for n in tree.body if getattr(n, "name", "") == "f"]
        for node in ast.walk(function)
        for field in ("body", "orelse", "finalbody", "handlers", "cases")
        if isinstance(getattr(node, field, None), list)
    ]
    for node, field in lists:
        statements = getattr(node, field)
        for k, one in enumerate(statements):
            parts = [
                getattr(one, f) for f in ("body", "orelse", "finalbody") if isinstance(getattr(one, f, None), list)
            ]
            for other in [[], *parts] if isinstance(one, ast.stmt) else [[]]:
                setattr(node, field, [*statements[:k], *other, *statements[k + 1 :]])
                try:
                    shorter = ast.unparse(tree)
                    if compiles(shorter):
                        yield shorter
                finally:
                    setattr(node, field, statements)


def difference(text, number=0):
    """What check() raises, or None."""
    try:
        check(text, number)
    except Exception as error:
        return error
    return None


def reduced(text, number, kind, limit=400):
    """The smallest program found that still differs in the same part."""
    again = True
    while again and limit > 0:
        again = False
        for shorter in smaller(text):
            limit -= 1
            if limit <= 0:
                break
            error = difference(shorter, number)
            if error is not None and kind_of(error) == kind:
                text, again = shorter, True
                break
    return text


def kind_of(error):
    return (type(error).__name__, str(error).partition(":")[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop", type=int, default=5, help="after so many differences")
    parser.add_argument("--show", action="store_true", help="print the program of that seed")
    options = parser.parse_args()
    failed = 0
    for k in range(options.seed, options.seed + options.count):
        text = written(random.Random(k))
        if options.show:
            print(body_of(text))
        error = difference(text, k)
        if error is None:
            continue
        failed += 1
        text = reduced(text, k, kind_of(error))
        error = difference(text, k)
        print(f"==== seed {k}: {type(error).__name__}: {str(error)[:1500]}\n{body_of(text)}\n", flush=True)
        if failed >= options.stop:
            break
    print(f"{k + 1 - options.seed} programs, {failed} different")


if __name__ == "__main__":
    main()
