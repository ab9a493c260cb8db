"""Programs whose inputs share memory: three views of one tensor, `z` itself, 3 x 4, its first row, and all of it flat."""

import tocha

SHARED = {}


def shared(f):
    SHARED[f.__name__] = f
    return f


@shared
def row_written_flat_read(z, row, flat):
    row.add_(1)
    return flat * 2


@shared
def flat_written_row_read(z, row, flat):
    flat.mul_(3)
    return row + z.sum(0)


@shared
def base_written_views_read(z, row, flat):
    z.add_(1)
    return row * 2, flat * 3


@shared
def both_written(z, row, flat):
    row.mul_(2)
    flat[2:6].add_(10)
    return z * 1


@shared
def written_and_returned(z, row, flat):
    row.mul_(2)
    return row, flat


@shared
def view_of_written_returned(z, row, flat):
    row.fill_(2)
    return flat.view(4, 3), z[:, 1]


@shared
def nothing_written(z, row, flat):
    return row * flat[:4], z


@shared
def own_memory_written(z, row, flat):
    w = row.clone()
    w.add_(flat[4:8])
    return w


@shared
def written_under_no_grad(z, row, flat):
    out = z * 2
    with tocha.no_grad():
        row.add_(1)
    return out, flat + 1


@shared
def read_before_and_after(z, row, flat):
    before = flat * 1
    row.zero_()
    return before + flat


@shared
def only_one_is_used(z, row, flat):
    row.add_(1)
    return row * 2


@shared
def geometry_of_one_changes(z, row, flat):
    row.unsqueeze_(0)
    flat.add_(1)
    return z + row


@shared
def copied_from_each_other(z, row, flat):
    row.copy_(flat[8:])
    return z * 1


@shared
def written_without_results(z, row, flat):
    row.add_(flat[4:8].detach())
    return ()
