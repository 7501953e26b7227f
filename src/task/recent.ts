import { Register } from '../stream/register.ts';

/**
 * A map that keeps the `capacity` entries used last, and less than as many older ones. Two generations, for a map that is
 * reordered with every use is dear: what was ever in it is kept until the next full collection (see `Register`).
 */
export class Recent<K extends string | number, V> {
  readonly #capacity: number;
  #newer = new Register<K, V>();
  #older = new Register<K, V>();

  constructor(capacity: number) {
    this.#capacity = capacity;
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
    this.#newer.set(key, value);
    if (this.#newer.size < this.#capacity) return;
    [this.#older, this.#newer] = [this.#newer, this.#older];
    this.#newer.clear();
  }

  delete(key: K): void {
    this.#newer.take(key);
    this.#older.take(key);
  }

  clear(): void {
    this.#newer.clear();
    this.#older.clear();
  }
}
