"""What `except*` and the methods of exception groups do, in Python: gone through like the program itself."""


def split(group, kinds):
    """BaseExceptionGroup.split: the part whose leaves are of these kinds (or satisfy a function), and the rest."""
    if isinstance(kinds, (type, tuple)):
        return parted(group, lambda e: isinstance(e, kinds))
    return parted(group, kinds)


def subgroup(group, kinds):
    return split(group, kinds)[0]


def parted(group, holds):
    if holds(group):
        return group, None
    if not isinstance(group, BaseExceptionGroup):
        return None, group
    matching, others = [], []
    for e in group.exceptions:
        yes, no = parted(e, holds)
        if yes is not None:
            matching.append(yes)
        if no is not None:
            others.append(no)
    return derived(group, matching), derived(group, others)


def derived(group, exceptions):
    """A group of these with everything else of the given one."""
    if not exceptions:
        return None
    made = group.derive(exceptions)
    if not isinstance(made, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    made.__traceback__ = group.__traceback__
    made.__context__ = group.__context__
    made.__cause__, made.__suppress_context__ = group.__cause__, group.__suppress_context__
    if hasattr(group, "__notes__"):
        made.__notes__ = list(group.__notes__)
    return made


def derive(group, exceptions):
    return BaseExceptionGroup(group.message, exceptions)


def matched(raised, kinds):
    """CHECK_EG_MATCH: the rest, and what an `except* kinds` takes."""
    if isinstance(raised, kinds):
        if isinstance(raised, BaseExceptionGroup):
            return None, raised
        made = ExceptionGroup("", [raised]) if isinstance(raised, Exception) else BaseExceptionGroup("", [raised])
        made.__traceback__ = raised.__traceback__
        return None, made
    if isinstance(raised, BaseExceptionGroup):
        yes, no = raised.split(kinds)
        return no, yes
    return raised, None


def left_over(whole, raised):
    """PREP_RERAISE_STAR: what goes on after all clauses, from what each of them raised and what none of them took."""
    if not raised:
        return None
    if not isinstance(whole, BaseExceptionGroup):
        return raised[0]
    new, again = [], []
    for e in raised:
        if e is not None:
            (again if is_part_of(e, whole) else new).append(e)
    back = None
    if again:
        kept = leaves(again)
        back = parted(whole, lambda e: not isinstance(e, BaseExceptionGroup) and any(e is k for k in kept))[0]
    if not new:
        return back
    if back is not None:
        new.append(back)
    return new[0] if len(new) == 1 else BaseExceptionGroup("", new)


def is_part_of(e, whole):
    """A part of a group has all that the group has; what a clause raised itself has not."""
    return (
        isinstance(e, BaseExceptionGroup)
        and e.__context__ is whole.__context__
        and e.__cause__ is whole.__cause__
        and len(getattr(e, "__notes__", ())) == len(getattr(whole, "__notes__", ()))
    )


def leaves(groups):
    found = []
    for g in groups:
        if isinstance(g, BaseExceptionGroup):
            found += leaves(g.exceptions)
        else:
            found.append(g)
    return found
