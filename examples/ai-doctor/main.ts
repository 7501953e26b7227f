// `npx tsx examples/ai-doctor/main.ts [patient.json | name of a sample]`
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { SDKMessage } from 'duolane/host';
import { generateBriefing } from './briefing.ts';
import { BriefingGenerationError } from './errors.ts';
import { layOut } from './print.ts';
import { openGuidelines } from './retrieval/guidelines.ts';
import { sampleNames, sampleText } from './samples.ts';
import { letReaderLeave } from '../support/stdout.ts';

letReaderLeave();

const [given] = process.argv.slice(2);
try {
  const text = await recordText(given);
  await using guidelines = await openGuidelines();
  console.log(`Guidelines: ${guidelines.size} chunks, searched by ${guidelines.note}.`);
  const briefing = await generateBriefing(text, {
    guidelines,
    onMessage: show,
    onWarning: (message) => console.error(`warning: ${message}`),
    session: { includePartialMessages: true },
  });
  console.log(`\n\n${layOut(briefing)}`);
} catch (error) {
  if (!(error instanceof BriefingGenerationError)) throw error;
  console.error(`${error.code}: ${error.message}`);
  process.exitCode = 1;
}

async function recordText(name: string | undefined): Promise<string> {
  if (name === undefined) return sampleText();
  if (existsSync(name)) return readText(name);
  const names = await sampleNames();
  if (names.includes(name)) return sampleText(name);
  throw new BriefingGenerationError(
    'INVALID_RECORD',
    `file or sample "${name}" not found; samples: ${names.join(', ')}`,
  );
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new BriefingGenerationError(
      'INVALID_RECORD',
      `the patient record cannot be read: ${why}`,
      { cause },
    );
  }
}

/** Prints searches and text while they arrive. */
function show(message: SDKMessage): void {
  if (message.type === 'assistant') {
    for (const block of message.message.content)
      if (block.type === 'tool_use' && block.name !== 'StructuredOutput')
        console.log(`\n  search: ${(block.input as { readonly query?: string }).query ?? ''}`);
  }
  if (message.type !== 'stream_event') return;
  const { event } = message;
  if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
    process.stdout.write(event.delta.text);
}
