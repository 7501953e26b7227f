import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { DuolaneError } from 'duolane';
import { z } from 'zod';

/** A passage of a guideline; `source` names where it is from, in the file that holds it. */
export interface Passage {
  readonly id: string;
  readonly title: string;
  readonly section: string;
  readonly text: string;
  readonly topics: readonly string[];
  readonly source: string;
}

const PassageSchema: z.ZodType<Passage> = z.strictObject({
  id: z.string().regex(/^[\w.-]+$/),
  title: z.string().min(1),
  section: z.string().min(1),
  text: z.string().min(1),
  topics: z.array(z.string()),
  source: z.string().min(1),
});
const CorpusFile = z.strictObject({
  about: z.string(),
  sources: z.record(z.string(), z.looseObject({ publisher: z.string(), note: z.string() })),
  passages: z.array(PassageSchema).min(1),
});

/** What is indexed and cited: a passage, or a part of a long one. */
export interface Chunk {
  /** The passage's id; parts of a long one are `<id>.2`, `<id>.3` … */
  readonly id: string;
  readonly title: string;
  readonly section: string;
  readonly text: string;
  readonly topics: readonly string[];
}

const SHIPPED = ['guidelines.json', 'cdc-opioid-2022.json'].map(
  (name) => new URL(`../data/${name}`, import.meta.url),
);
const CHUNK_CHARS = 640;

/**
 * Reads passages from files, the shipped ones by default. Throws `invalid` with the file and the
 * problem.
 */
export async function loadCorpus(files: readonly URL[] = SHIPPED): Promise<readonly Passage[]> {
  const passages: Passage[] = [];
  const seen = new Set<string>();
  for (const file of files) {
    const parsed = CorpusFile.safeParse(await readJson(file));
    if (!parsed.success)
      throw new DuolaneError(
        'invalid',
        `${file.pathname} is not a valid corpus: ${z.prettifyError(parsed.error)}`,
      );
    for (const passage of parsed.data.passages) {
      if (seen.has(passage.id))
        throw new DuolaneError('invalid', `${file.pathname} repeats the passage ${passage.id}`);
      if (!(passage.source in parsed.data.sources))
        throw new DuolaneError(
          'invalid',
          `${passage.id} names an unknown source: ${passage.source}`,
        );
      seen.add(passage.id);
      passages.push(passage);
    }
  }
  return passages;
}

async function readJson(file: URL): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new DuolaneError('invalid', `${file.pathname} is not valid JSON`, { cause });
  }
}

/**
 * Splits long passages at the ends of sentences; each part repeats the last sentence of the one
 * before.
 */
export function chunk(
  passages: readonly Passage[],
  maxChars: number = CHUNK_CHARS,
): readonly Chunk[] {
  return passages.flatMap(({ id, title, section, text, topics }) =>
    parts(sentences(text), maxChars).map((part, at) => ({
      id: at === 0 ? id : `${id}.${at + 1}`,
      title,
      section,
      text: part,
      topics,
    })),
  );
}

function parts(all: readonly string[], maxChars: number): string[] {
  const done: string[] = [];
  let open = '';
  let last = '';
  for (const sentence of all) {
    const longer = open === '' ? sentence : `${open} ${sentence}`;
    if (open !== '' && longer.length > maxChars) {
      done.push(open);
      const overlapping = `${last} ${sentence}`;
      open = overlapping.length <= maxChars ? overlapping : sentence;
    } else open = longer;
    last = sentence;
  }
  return [...done, open];
}

/**
 * The sentences of a text, each with its full stop. Decimals and abbreviations inside do not end
 * one.
 */
export const sentences = (text: string): string[] =>
  text.split(/(?<=[.!?])\s+(?=[A-Z"'(])/).filter((sentence) => sentence.trim() !== '');

/** A hash of everything that is searched or shown. */
export const corpusHash = (chunks: readonly Chunk[]): string =>
  createHash('sha256')
    .update(
      JSON.stringify(
        chunks.map((each) => [each.id, each.title, each.section, each.text, each.topics]),
      ),
    )
    .digest('hex');
