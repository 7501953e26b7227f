/**
 * A map for values that come and go while the map stays. A Map cannot do that cheaply: each table that it has
 * outgrown points to the next one, and once V8 has put one of them among the old objects, every value that was ever
 * in the map is kept until the next full collection. Here a value that is taken out is let go at once.
 */
export class ReleasingMap<K extends string | number, V> {
  readonly #boxes = new Map<K, { value: V | undefined }>();

  get size(): number {
    return this.#boxes.size;
  }

  get(key: K): V | undefined {
    return this.#boxes.get(key)?.value;
  }

  has(key: K): boolean {
    return this.#boxes.has(key);
  }

  set(key: K, value: V): void {
    const box = this.#boxes.get(key);
    if (box) box.value = value;
    else this.#boxes.set(key, { value });
  }

  /** Returns what was there. */
  take(key: K): V | undefined {
    const box = this.#boxes.get(key);
    if (!box) return undefined;
    const { value } = box;
    box.value = undefined;
    this.#boxes.delete(key);
    return value;
  }

  clear(): void {
    for (const key of this.#boxes.keys()) this.take(key);
  }

  keys(): IterableIterator<K> {
    return this.#boxes.keys();
  }

  /** In the order in which they came; one that is taken out meanwhile does not appear. */
  *values(): Generator<V, void> {
    for (const { value } of this.#boxes.values()) yield value as V;
  }
}
