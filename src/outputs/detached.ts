import type { Output } from './types.ts';

/** An encoder whose functions may be taken apart from it, as those of an `Output` are. */
export const detached = (encoder: Output): Output => ({
  encode: (entry) => encoder.encode(entry),
  pause: () => encoder.pause(),
  get openedAt() {
    return encoder.openedAt;
  },
  get snapshot() {
    return encoder.snapshot;
  },
});
