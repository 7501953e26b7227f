import { readFileSync } from 'node:fs';

/** The processes that a process has started and that still run. Linux only. */
export function childrenOf(pid: number): readonly number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return list.split(' ').filter(Boolean).map(Number);
}
