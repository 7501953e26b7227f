import { checkTrace } from '../../../trace/index.ts';
import { EXIT, numberFlag, textFlag, type Command, type CommandCall } from '../../command.ts';
import { openTrace } from '../open-trace.ts';
import { checkInstallation } from './check-installation.ts';
import { probe } from './probe-server.ts';
import { isBroken, printChecks, printFacts, printFindings, summary } from './print-report.ts';

export const doctor: Command = {
  usage: '[trace file or address] [options]',
  most: 1,
  options: {
    message: { value: 'text', text: 'message that is sent to a running agent ("Hello")' },
    token: { value: 'bearer', text: 'sent to a running agent as its bearer token' },
    timeout: { value: 'seconds', text: 'how long a run of a running agent may take (60)' },
    port: { value: 'number', text: 'check whether this port is free' },
    store: {
      value: 'file',
      text: 'check whether tasks can be stored in this file (.duolane/tasks.sqlite)',
    },
    json: { text: 'print the findings as JSON' },
  },
  details: [
    'Without an argument: checks whether everything is installed that the commands need.',
    'With a file: a trace of duolane wrap, entries of duolane demo --json, or an A2A stream as\n' +
      'curl -N saves it. For every broken rule it prints the line, what happened and the fix.',
    'With an address: checks the stream contract of a running A2A server. The agent runs twice.',
    'Exit code 1 if something required is missing or a rule is broken.',
  ],
  examples: [
    'duolane doctor',
    'duolane doctor run.jsonl',
    'duolane doctor http://127.0.0.1:8003 --message "What is the time?"',
  ],
  async run(call) {
    const [what] = call.args;
    if (what === undefined) return installation(call);
    return /^https?:\/\//.test(what) ? server(call, what) : file(call, what);
  },
};

async function installation({ flags, terminal }: CommandCall): Promise<number> {
  const port = numberFlag(flags, 'port', { min: 0, max: 65_535, otherwise: 0 });
  const store = textFlag(flags, 'store') ?? '.duolane/tasks.sqlite';
  const checks = await checkInstallation({ port, store });
  if (flags['json']) terminal.out.line(JSON.stringify({ checks }));
  else printChecks(terminal.out, checks);
  return checks.some(({ state }) => state === 'missing') ? EXIT.failed : EXIT.ok;
}

async function file({ flags, terminal, signal }: CommandCall, path: string): Promise<number> {
  const { out } = terminal;
  const trace = openTrace(path, signal, '; an address starts with http://');
  const verdict = await checkTrace(trace);
  if (flags['json']) out.line(JSON.stringify({ file: path, ...verdict }));
  else {
    printFindings(out, path, verdict.findings);
    out.line(`${path}: ${verdict.records} ${KINDS[verdict.kind]}, ${summary(verdict.findings)}`);
  }
  return isBroken(verdict.findings) ? EXIT.failed : EXIT.ok;
}

const KINDS = { frames: 'frames', entries: 'entries of a log', stream: 'events of a stream' };

async function server({ flags, terminal, signal }: CommandCall, url: string): Promise<number> {
  const { out } = terminal;
  const token = textFlag(flags, 'token');
  const seconds = numberFlag(flags, 'timeout', { min: 1, max: 86_400, otherwise: 60 });
  const { findings, facts } = await probe(url, {
    message: textFlag(flags, 'message') ?? 'Hello',
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    timeoutMs: seconds * 1000,
    signal,
  });
  if (flags['json']) out.line(JSON.stringify({ url, facts, findings }));
  else {
    printFacts(out, facts);
    printFindings(out, 'event', findings);
    out.line(`${url}: ${summary(findings)}`);
  }
  return isBroken(findings) ? EXIT.failed : EXIT.ok;
}
