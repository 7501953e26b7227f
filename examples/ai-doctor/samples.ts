import { readdir, readFile } from 'node:fs/promises';
import { type PatientRecord, readRecord } from './record.ts';

const FOLDER = new URL('./patients/', import.meta.url);
const FIRST = 'diabetes-hypertension';

/** The names of the sample patients, the one of the README first. */
export async function sampleNames(): Promise<readonly string[]> {
  const files = await readdir(FOLDER);
  const names = files
    .filter((file) => file.endsWith('.json') && file !== 'expectations.json')
    .map((file) => file.slice(0, -'.json'.length))
    .toSorted();
  return [FIRST, ...names.filter((name) => name !== FIRST)];
}

export const sampleText = (name: string = FIRST): Promise<string> =>
  readFile(new URL(`${name}.json`, FOLDER), 'utf8');

export const samplePatients = async (): Promise<readonly PatientRecord[]> =>
  Promise.all((await sampleNames()).map(async (name) => readRecord(await sampleText(name))));
