"""The users of an instruction: an ordered set that is small for most.

A dict of one user takes 224 bytes, a tuple 48 and the instruction itself 128, and a walk over a
large module waits for memory. So a few users are a tuple, and only many are a dict.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

T = TypeVar("T")

Users: TypeAlias = tuple[T, ...] | dict[T, None]

_FEW = 8
"""A tuple of at most this many is searched as fast as a dict."""


def with_user(users: Users[T], user: T) -> Users[T]:
    """Return `users` with `user`, which is last if it is new; a dict is changed in place."""
    if not users:
        return (user,)
    if isinstance(users, dict):
        users[user] = None
    elif user not in users:
        return (*users, user) if len(users) < _FEW else dict.fromkeys((*users, user))
    return users


def without_user(users: Users[T], user: T) -> Users[T]:
    """Return `users` without `user`; a dict is changed in place."""
    if users == (user,):
        return ()
    if isinstance(users, dict):
        users.pop(user, None)
        return users
    if user not in users:
        return users
    place = users.index(user)
    return users[:place] + users[place + 1 :]
