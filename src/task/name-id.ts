import { hash } from 'node:crypto';

/**
 * A UUID derived from a name, so that the same log gives the same ids on every replica and replay.
 */
export function nameId(name: string): string {
  const hex = hash('sha256', name);
  const variant = ((Number.parseInt(hex.slice(16, 18), 16) & 0x3f) | 0x80).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(18, 20)}-${hex.slice(20, 32)}`;
}
