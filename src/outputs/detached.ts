import type { OutputEncoder } from './types.ts';

/** An encoder whose functions may be taken apart from it, as those of an `OutputEncoder` are. */
export const detached = (encoder: OutputEncoder): OutputEncoder => ({
  encode: (entry) => encoder.encode(entry),
  pause: () => encoder.pause(),
  get openedAt() {
    return encoder.openedAt;
  },
  get snapshot() {
    return encoder.snapshot;
  },
});
