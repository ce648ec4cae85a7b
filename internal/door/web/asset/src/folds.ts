// A tab remembers which single rows of a run its reader folded and unfolded, in which way of folding the whole tree, so that they are so
// again when the page is loaded again.
const most = 500; // rows

export class Folds {
  private readonly name: string;
  private readonly open: Map<string, boolean>; // by the ids of rows

  constructor(run: string, how: string) {
    this.name = `actlog folds ${how} ${run}`;
    let kept: [string, boolean][] = [];
    try {
      kept = JSON.parse(sessionStorage.getItem(this.name) ?? "[]") as [string, boolean][];
    } catch {
      sessionStorage.removeItem(this.name);
    }
    this.open = new Map(kept);
  }

  // note remembers that a row is open or not.
  note(id: string, open: boolean): void {
    this.open.delete(id); // so that the oldest stand first
    this.open.set(id, open);
    for (const old of this.open.keys()) {
      if (this.open.size <= most) break;
      this.open.delete(old);
    }
    try {
      sessionStorage.setItem(this.name, JSON.stringify([...this.open]));
    } catch {
      // there is no room: the folds last as long as the page
    }
  }

  // of returns those of some rows that were folded or unfolded.
  of(ids: Set<string>): [string, boolean][] {
    return [...this.open].filter(([id]) => ids.has(id));
  }

  // forget forgets them: the whole tree was folded in a way.
  forget(): void {
    this.open.clear();
    sessionStorage.removeItem(this.name);
  }
}
