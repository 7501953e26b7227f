/** What a list of the fold is made of. */
export interface ListRules<Item, Change> {
  readonly keyOf: (change: Change) => string;
  /** The item after a change; `known` is the item with the same key, if there is one. */
  readonly put: (known: Item | undefined, change: Change) => Item;
  /** The number of characters that a change adds, to those of the known item if it keeps them. */
  readonly charsOf: (change: Change, knownChars: number) => number;
  /** The same for an item that was stored, whose changes are unknown. */
  readonly keyOfItem: (item: Item) => string;
  readonly charsOfItem: (item: Item) => number;
}

/** Where the items of a list are. Lists that grow out of each other share one. */
interface Positions {
  readonly of: Map<string, number>;
  /** The length of the one list that may use it: the last one that has grown. */
  length: number;
}

/** A list that was made, with what the next one needs. */
interface Made<Item> {
  readonly items: readonly Item[];
  readonly chars: readonly number[];
  readonly total: number;
  readonly positions: Positions;
}

/** So many changes may wait even if the list is short. */
const MIN_WAITING = 16;

/**
 * An immutable list of items with keys, for a fold: a change adds an item or replaces one, and
 * costs the same however long the list is. Changes wait in a chain, and the array is made when it
 * is read, or when more changes wait than it has items; so each item is copied about twice, and
 * replaced items are kept no longer than that. Reading a list after each change copies it each
 * time.
 */
export class GrowingList<Item extends object | string, Change> {
  readonly #rules: ListRules<Item, Change>;
  #made: Made<Item> | undefined;
  /** The list before, and what has changed since; undefined once this list is made. */
  #last: { readonly before: GrowingList<Item, Change>; readonly change: Change } | undefined;
  /** How many changes wait, and the length of the list that they wait for. */
  readonly #waiting: number;
  readonly #least: number;
  /** Roughly the characters of all items; those of replaced items count until they are dropped. */
  readonly chars: number;

  private constructor(
    rules: ListRules<Item, Change>,
    from: Made<Item> | { before: GrowingList<Item, Change>; change: Change },
  ) {
    this.#rules = rules;
    if ('items' in from) {
      this.#made = from;
      this.#waiting = 0;
      this.#least = from.items.length;
      this.chars = from.total;
      return;
    }
    const { before, change } = from;
    this.#last = from;
    this.#waiting = before.#made ? 1 : before.#waiting + 1;
    this.#least = before.atLeast;
    if (this.#waiting > MIN_WAITING + this.#least) this.chars = this.#make().total;
    else this.chars = before.chars + rules.charsOf(change, 0);
  }

  /** A list of items that were read from a store. */
  static of<Item extends object | string, Change>(
    rules: ListRules<Item, Change>,
    items: readonly Item[],
  ): GrowingList<Item, Change> {
    const chars = items.map(rules.charsOfItem);
    const total = chars.reduce((sum, each) => sum + each, 0);
    return new GrowingList(rules, { items, chars, total, positions: positionsOf(rules, items) });
  }

  /** The items; always the same array. */
  get items(): readonly Item[] {
    return (this.#made ?? this.#make()).items;
  }

  /** Whether the array exists already. */
  get isMade(): boolean {
    return this.#made !== undefined;
  }

  /** The list has at least so many items. It has more if changes wait. */
  get atLeast(): number {
    return this.#made?.items.length ?? this.#least;
  }

  /** The list after one more change. This one stays as it is. */
  with(change: Change): GrowingList<Item, Change> {
    return new GrowingList(this.#rules, { before: this, change });
  }

  #make(): Made<Item> {
    const changes: Change[] = [];
    let base: Made<Item> | undefined;
    for (let last = this.#last; last && !base; last = last.before.#last) {
      changes.push(last.change);
      base = last.before.#made;
    }
    this.#made = this.#changed(base as Made<Item>, changes.toReversed());
    this.#last = undefined;
    return this.#made;
  }

  #changed(from: Made<Item>, changes: readonly Change[]): Made<Item> {
    const { keyOf, put, charsOf } = this.#rules;
    const items = from.items.slice();
    const chars = from.chars.slice();
    let { total } = from;
    // Another list that grew out of the same one has taken the positions for its own items.
    const isFree = from.positions.length === items.length;
    const positions = isFree ? from.positions : positionsOf(this.#rules, items);
    for (const change of changes) {
      const key = keyOf(change);
      const at = positions.of.get(key) ?? items.length;
      const before = chars[at] ?? 0;
      const now = charsOf(change, before);
      positions.of.set(key, at);
      items[at] = put(items[at], change);
      chars[at] = now;
      total += now - before;
    }
    positions.length = items.length;
    return { items, chars, total, positions };
  }
}

function positionsOf<Item extends object | string, Change>(
  { keyOfItem }: ListRules<Item, Change>,
  items: readonly Item[],
): Positions {
  return {
    of: new Map(items.map((item, index) => [keyOfItem(item), index])),
    length: items.length,
  };
}
