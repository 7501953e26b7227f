import { writeFile } from 'node:fs/promises';
import { DuolaneError, errorMessage } from '../../errors.ts';
import {
  type EvalReport,
  evaluate,
  type Evaluated,
  type Measured,
  markdownOf,
  otlpOf,
  reportOf,
  sendOtlp,
  type SpanOptions,
} from '../../eval/index.ts';
import type { JsonObject } from '../../json.ts';
import { type Command, type CommandCall, EXIT, numberFlag, textFlag } from '../command.ts';
import { readCases, sampleCases } from './eval-cases.ts';
import { channelLogger } from '../terminal/terminal-logger.ts';
import { closeResources, exampleNames, loadAgent, SAMPLES } from '../agents/load-agent.ts';
import { printForeign } from '../terminal/entry-printer.ts';
import type { TextOutput } from '../terminal/terminal.ts';

export const evalCommand: Command = {
  usage: '<module or sample> [cases] [options]',
  required: ['<agent>'],
  expected: 'a module or a sample, e.g. duolane eval ai-doctor',
  most: 2,
  words: exampleNames,
  options: {
    report: {
      value: 'file',
      text: 'write the report to this file: Markdown if it ends in .md, else JSON',
    },
    rounds: { value: 'number', text: 'run each case this many times (1)' },
    'at-once': {
      value: 'number',
      text: 'run this many cases concurrently (1); times are most exact with one',
    },
    timeout: { value: 'seconds', text: 'cancel a run that takes longer (300)' },
    otlp: { value: 'url', text: 'send the runs as traces to an OpenTelemetry collector' },
    langfuse: {
      value: 'url',
      text: 'send them to Langfuse, with LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY',
    },
    content: { text: 'include prompts and responses in the traces' },
    json: { text: 'print the report as JSON' },
  },
  details: [
    SAMPLES,
    'Cases are a JSON file with an array, or a module that exports `cases` and optionally `scorers`.\n' +
      'Without them it runs the samples of the agent, which must keep the stream contract and complete.',
    'Exit code 1 if a run does not pass.',
  ],
  examples: [
    'duolane eval ai-doctor',
    'duolane eval ./agent.js ./cases.json --report report.md',
    'duolane eval ./agent.js ./cases.js --rounds 3 --otlp http://127.0.0.1:4318',
  ],
  async run(call) {
    const { args, flags, terminal, signal } = call;
    const [what = '', file] = args;
    const { name, module } = await loadAgent(what);
    const runs: Measured[] = [];
    let exporting: readonly Export[] = [];
    try {
      exporting = exportsOf(name, call);
      const { cases, scorers = [] } =
        file === undefined ? { cases: sampleCases(module, what) } : await readCases(file);
      for await (const run of evaluate(module.default, cases, {
        name,
        scorers,
        rounds: numberFlag(flags, 'rounds', { min: 1, max: 1000, otherwise: 1 }),
        atOnce: numberFlag(flags, 'at-once', { min: 1, max: 64, otherwise: 1 }),
        timeoutMs: numberFlag(flags, 'timeout', { min: 0.001, max: 86_400, otherwise: 300 }) * 1000,
        logger: channelLogger(terminal.err),
        signal,
      })) {
        const { entries: _, ...rest } = run; // dropped: many runs would fill the memory
        runs.push(rest);
        for (const each of exporting) each.add(run);
        if (!flags['json']) printRun(terminal.out, run);
      }
    } finally {
      await closeResources(module);
    }
    const report = reportOf(name, runs);
    if (flags['json']) terminal.out.line(JSON.stringify(report));
    else printSum(terminal.out, report);
    await keep(report, textFlag(flags, 'report'));
    for (const each of exporting) await each.send();
    return report.passed === report.runs ? EXIT.ok : EXIT.failed;
  },
};

function printRun(
  out: TextOutput,
  { case: { name }, round, scores, pass, ...run }: Evaluated,
): void {
  const sign = pass ? out.style('green', '✓') : out.style('red', '✗');
  const text = run.firstTextMs === undefined ? '' : `first text ${run.firstTextMs} ms, `;
  const times = out.style('dim', `${text}${run.totalMs} ms`);
  out.line(`${sign} ${name}${round > 1 ? ` (${round})` : ''}  ${times}`);
  for (const score of scores)
    if (!score.pass)
      // The reason may quote the text of the agent.
      printForeign(out, `  ${score.name} ${score.value.toFixed(2)}: ${score.why ?? ''}`);
}

function printSum(out: TextOutput, { passed, runs, scores }: EvalReport): void {
  out.line(`\n${out.style('bold', `${passed} of ${runs} runs pass`)}`);
  for (const [name, mean] of Object.entries(scores)) out.line(`  ${name} ${mean.toFixed(2)}`);
}

async function keep(report: EvalReport, file: string | undefined): Promise<void> {
  if (file === undefined) return;
  const text = file.endsWith('.md') ? markdownOf(report) : `${JSON.stringify(report, null, 2)}\n`;
  try {
    await writeFile(file, text);
  } catch (cause) {
    throw new DuolaneError('invalid', `cannot write the report: ${errorMessage(cause)}`, { cause });
  }
}

interface Export {
  add(run: Evaluated): void;
  /** Sends each run as a separate request. */
  send(): Promise<void>;
}

/**
 * Encodes runs as they end, and sends them after the report was written: a collector may be down.
 */
function exportsOf(service: string, { flags, signal }: CommandCall): readonly Export[] {
  const content = flags['content'] === true;
  const exportTo = (url: string, options: SpanOptions, headers = {}): Export => {
    const bodies: JsonObject[] = [];
    return {
      add: (run) => void bodies.push(otlpOf([run], { service, content, ...options })),
      async send() {
        for (const body of bodies) await sendOtlp(url, body, { headers, signal });
      },
    };
  };
  const collector = textFlag(flags, 'otlp');
  const langfuse = textFlag(flags, 'langfuse')?.replace(/\/$/, '');
  return [
    ...(collector === undefined ? [] : [exportTo(collector, {})]),
    ...(langfuse === undefined
      ? []
      : [exportTo(`${langfuse}/api/public/otel`, { langfuse: true }, langfuseHeaders())]),
  ];
}

function langfuseHeaders(): Readonly<Record<string, string>> {
  const { LANGFUSE_PUBLIC_KEY: user, LANGFUSE_SECRET_KEY: key } = process.env;
  if (!user || !key)
    throw new DuolaneError(
      'invalid',
      '--langfuse needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY; set both keys of the project',
    );
  return {
    authorization: `Basic ${Buffer.from(`${user}:${key}`).toString('base64')}`,
    'x-langfuse-ingestion-version': '4',
  };
}
