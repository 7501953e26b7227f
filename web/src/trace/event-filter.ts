import { laneOf, type TimelineRow } from '../state/timeline-row.ts';

/** Which rows the event list shows. */
export interface EventFilter {
  readonly text: string;
  readonly lane: 'all' | 'message' | 'control';
  readonly onlyProblems: boolean;
}

export const ALL_EVENTS: EventFilter = { text: '', lane: 'all', onlyProblems: false };

export const isFiltered = ({ text, lane, onlyProblems }: EventFilter): boolean =>
  text.trim() !== '' || lane !== 'all' || onlyProblems;

/** The indexes of the rows that match, in order; undefined without a filter, for all rows. */
export function matchingRows(
  rows: readonly TimelineRow[],
  filter: EventFilter,
): readonly number[] | undefined {
  if (!isFiltered(filter)) return undefined;
  const wanted = filter.text.trim().toLowerCase();
  const found: number[] = [];
  for (const [index, row] of rows.entries()) {
    if (filter.lane !== 'all' && laneOf(row) !== filter.lane) continue;
    if (filter.onlyProblems && !isProblem(row)) continue;
    if (wanted !== '' && !textsOf(row).some((text) => text.toLowerCase().includes(wanted)))
      continue;
    found.push(index);
  }
  return found;
}

const isProblem = ({ tone, span }: TimelineRow): boolean =>
  tone !== undefined || span?.state === 'failed' || span?.state === 'lost';

/** What a search looks at: the text, and of a call its name and arguments. */
function textsOf({ text, span, path }: TimelineRow): readonly string[] {
  const args = span?.kind === 'call' && span.args !== undefined ? [JSON.stringify(span.args)] : [];
  return [text, ...(span ? [span.name] : []), ...args, ...(path ?? [])];
}
