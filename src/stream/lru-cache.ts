import { ReleasingMap } from './releasing-map.ts';

/** A second limit of an `LruCache`: the sum of the weights of its values. */
export interface RecentOptions<V> {
  readonly maxWeight?: number;
  readonly weigh?: (value: V) => number;
}

/**
 * A cache that keeps the `capacity` entries used last, and fewer than that of older ones. If
 * `maxWeight` is given, the same holds for the sum of their weights, so at most about twice that is
 * kept.
 *
 * It keeps two generations instead of reordering a Map on every use: V8 retains each old table of a
 * Map, and every value in it, until a full collection (see `ReleasingMap`).
 */
export class LruCache<K extends string | number, V> {
  readonly #capacity: number;
  readonly #maxWeight: number;
  readonly #weigh: (value: V) => number;
  /** The sum of the weights in `#newer`. */
  #weight = 0;
  #newer = new ReleasingMap<K, V>();
  #older = new ReleasingMap<K, V>();

  constructor(capacity: number, { maxWeight = Infinity, weigh = () => 0 }: RecentOptions<V> = {}) {
    this.#capacity = capacity;
    this.#maxWeight = maxWeight;
    this.#weigh = weigh;
  }

  get(key: K): V | undefined {
    const value = this.#newer.get(key);
    if (value !== undefined) return value;
    const older = this.#older.get(key);
    if (older !== undefined) this.set(key, older);
    return older;
  }

  /** Returns the value without marking it as used. */
  peek(key: K): V | undefined {
    return this.#newer.get(key) ?? this.#older.get(key);
  }

  set(key: K, value: V): void {
    this.#older.take(key);
    const before = this.#newer.get(key);
    if (before !== undefined) this.#weight -= this.#weigh(before);
    this.#weight += this.#weigh(value);
    this.#newer.set(key, value);
    if (this.#newer.size < this.#capacity && this.#weight <= this.#maxWeight) return;
    [this.#older, this.#newer] = [this.#newer, this.#older];
    this.#newer.clear();
    this.#weight = 0;
  }

  delete(key: K): void {
    const value = this.#newer.take(key);
    if (value !== undefined) this.#weight -= this.#weigh(value);
    this.#older.take(key);
  }

  clear(): void {
    this.#weight = 0;
    this.#newer.clear();
    this.#older.clear();
  }
}
