import type { Usage } from './types.ts';

/** Adds two usages by field. A field that neither has stays absent. */
export function addUsage(a: Usage = {}, b: Usage = {}): Usage {
  const sum: Record<string, number> = { ...a };
  for (const [field, n] of Object.entries(b)) sum[field] = (sum[field] ?? 0) + n;
  return sum;
}

/** Subtracts `before` from `after` by field. A field without a difference is absent. */
export function usageSince(before: Usage = {}, after: Usage = {}): Usage {
  const fields = Object.entries(after) as [keyof Usage, number][];
  const more = fields.map(([field, n]) => [field, n - (before[field] ?? 0)] as const);
  return Object.fromEntries(more.filter(([, n]) => n !== 0));
}
