import type { Frame } from '../../src/event/types.ts';
import { isObject, type JsonObject } from '../../src/json.ts';

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=msg_)[0-9a-f]{32}/g;
const OF_THE_STORY = '11111111';
const NUMBER_OF_THE_RUN = /(?:_ms|^pid)$/;
const INSTANT = /^\d{4}-\d\d-\d\dT/;

/**
 * Makes two runs of one story equal: replaces what differs from run to run (random ids, times, the
 * folder) by constants. Ids are numbered in the order of their first use.
 */
export function steady(folder: string): (data: JsonObject) => JsonObject {
  const ids = new Map<string, string>();
  const named = (id: string): string => {
    if (id.startsWith(OF_THE_STORY)) return id;
    const known =
      ids.get(id) ?? `00000000-0000-4000-8000-${String(ids.size + 1).padStart(12, '0')}`;
    ids.set(id, known);
    return known;
  };
  const plain = (name: string, value: unknown): unknown => {
    if (typeof value === 'number') return NUMBER_OF_THE_RUN.test(name) ? 0 : value;
    return typeof value === 'string' && INSTANT.test(value) ? '2026-01-01T00:00:00.000Z' : value;
  };
  // Replaces in the complete text: names contain folders too, some with replaced slashes.
  const places: readonly (readonly [string, string])[] = [
    [folder, '/project'],
    [folder.replaceAll(/[^a-zA-Z0-9]/g, '-'), '-project'],
  ];
  return (data) => {
    let text = JSON.stringify(data, plain);
    for (const [from, to] of places) text = text.replaceAll(from, to);
    return JSON.parse(text.replace(ID, named)) as JsonObject;
  };
}

/** The frames of one side, without what only the recorder adds. */
export const said = (frames: readonly Frame[], direction: Frame['direction']): readonly Frame[] =>
  frames.filter((frame) => frame.direction === direction && frame.data['host'] !== true);

/** One lane of one side; the order of frames is defined within a lane only. */
export const lane = (frames: readonly JsonObject[], control: boolean): readonly JsonObject[] =>
  frames.filter(({ type }) => String(type).startsWith('control_') === control);

/**
 * Plays one side of a recording: writes its frames in order, each after the other side has sent as
 * many frames as in the recording.
 */
export async function play(
  frames: readonly Frame[],
  direction: Frame['direction'],
  write: (frame: JsonObject) => void,
  heard: (count: number) => Promise<unknown>,
): Promise<void> {
  let others = 0;
  for (const frame of frames) {
    if (!isObject(frame.data) || frame.data['host'] === true) continue;
    if (frame.direction !== direction) others += 1;
    else {
      await heard(others);
      write(frame.data);
    }
  }
  await heard(others);
}
