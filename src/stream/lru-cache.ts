import { ReleasingMap } from './releasing-map.ts';

export interface RecentOptions<V> {
  readonly maxWeight?: number;
  readonly weigh?: (value: V) => number;
}

/**
 * A map that keeps the `capacity` entries used last, and less than as many older ones; the same holds
 * for their weight, if `maxWeight` is given: about twice that is kept at most. Two generations, for a map that is
 * reordered with every use is dear: what was ever in it is kept until the next full collection (see `ReleasingMap`).
 */
export class LruCache<K extends string | number, V> {
  readonly #capacity: number;
  readonly #maxWeight: number;
  readonly #weigh: (value: V) => number;
  /** Of what is in `#newer`. */
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

  /** Looks without using. */
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
