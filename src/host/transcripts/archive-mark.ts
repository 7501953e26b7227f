import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isObject } from '../../json.ts';

/** The file beside a transcript that says whether its session is archived. */
const markOf = (transcript: string): string =>
  join(transcript.slice(0, -'.jsonl'.length), 'archived.json');

/** Whether the session of a transcript is archived; undefined if it never was. */
export async function readArchived(transcript: string): Promise<boolean | undefined> {
  try {
    const mark: unknown = JSON.parse(await readFile(markOf(transcript), 'utf8'));
    return isObject(mark) && typeof mark['archived'] === 'boolean' ? mark['archived'] : undefined;
  } catch {
    // Without a readable mark the session was never archived.
    return undefined;
  }
}

export async function writeArchived(transcript: string, archived: boolean): Promise<void> {
  const mark = markOf(transcript);
  await mkdir(dirname(mark), { recursive: true, mode: 0o700 });
  const content = { archived, at: new Date().toISOString(), by: 'sdk' };
  await writeFile(mark, JSON.stringify(content), { mode: 0o600 });
}
