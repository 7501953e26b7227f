import { useEffect } from 'preact/hooks';
import type { TaskRow } from '../api/requests.ts';
import { useRuns } from '../runs/use-runs.ts';

const WAITING = { state: 'input-required' } as const;
const TITLE = 'Duolane';

/** The runs that wait for a person. Their number is in the title of the tab. */
export function useInbox(onError: (error: unknown) => void): readonly TaskRow[] {
  const { rows } = useRuns(WAITING, onError);
  const waiting = rows.filter(({ pending }) => pending.length > 0);
  useEffect(() => {
    document.title = waiting.length > 0 ? `(${waiting.length}) waiting – ${TITLE}` : TITLE;
  }, [waiting.length]);
  return waiting;
}
