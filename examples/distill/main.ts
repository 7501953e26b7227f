// `npx tsx examples/distill/main.ts [transcript.txt]`
import { readFile } from 'node:fs/promises';
import { DuolaneError } from 'duolane';
import { distill } from './distill.ts';
import { SAMPLES } from './samples.ts';

const [file] = process.argv.slice(2);
try {
  const transcript = file === undefined ? SAMPLES[0] : await readText(file);
  console.log(JSON.stringify(await distill(transcript), null, 2));
} catch (error) {
  console.error(error instanceof DuolaneError ? `${error.code}: ${error.message}` : error);
  process.exitCode = 1;
}

async function readText(name: string): Promise<string> {
  try {
    return await readFile(name, 'utf8');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `cannot read the transcript: ${why}`, { cause });
  }
}
