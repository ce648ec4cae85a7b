def points(cents):
    return cents // 10  # BUG: a euro is one point
