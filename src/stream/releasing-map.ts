/**
 * A map for values that are added and removed while the map lives on. A removed value can be
 * collected immediately.
 *
 * A plain Map does not ensure that: each table that it has outgrown points to the next one, and
 * once V8 has moved one of them to the old generation, every value that was ever in the map is
 * retained until the next full collection.
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

  /** Removes the key and returns its value. */
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

  /** Yields the values in insertion order; a value that is removed meanwhile is skipped. */
  *values(): Generator<V, void> {
    for (const { value } of this.#boxes.values()) yield value as V;
  }
}
