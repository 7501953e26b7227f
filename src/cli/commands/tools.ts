import { randomUUID } from 'node:crypto';
import type { Answer, Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../json.ts';
import type { AskOptions, ToolEvent, ToolResult, ToolSource } from '../../mcp/index.ts';
import { EXIT, textFlag, type Command, type CommandCall } from '../command.ts';
import { askUser } from '../terminal/prompt-user.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import { printForeign } from '../terminal/entry-printer.ts';
import { dialSource, readProtocol, SOURCES } from './dial-source.ts';
import type { TextOutput } from '../terminal/terminal.ts';

export const tools: Command = {
  usage: '<source> [tool [arguments as JSON]] [options]',
  required: ['<source>'],
  expected: `an MCP server, e.g. duolane tools 'stdio:node server.js'`,
  most: 3,
  options: {
    resources: { text: 'list the resources and the resource templates instead of the tools' },
    read: { value: 'uri', text: 'read a resource' },
    prompts: { text: 'list the prompts instead of the tools' },
    prompt: { value: 'name', text: 'get a prompt; its arguments follow the source as JSON' },
    protocol: {
      value: 'kind',
      text: 'auto (default over HTTP), session (up to 2025-11-25) or stateless (2026-07-28)',
    },
    timeout: {
      value: 'seconds',
      text: 'how long the server may be silent during a request; 60 by default',
    },
    token: { value: 'bearer', text: 'sent to the server as its bearer token' },
    json: { text: 'print what the server sends as JSON, one object per line' },
  },
  details: [
    `The source is ${SOURCES}.`,
    'Without a tool, it lists all tools as they arrive. With a tool, it calls it and prints its progress\n' +
      'on stderr. Exit code 1 if the tool failed. Questions of the server (elicitation) are asked on the\n' +
      'terminal, and declined without one. If the server requests a message of a model (sampling), it is\n' +
      'shown, and you write the message.',
  ],
  examples: [
    "duolane tools 'stdio:node server.js'",
    'duolane tools http://127.0.0.1:3000/mcp',
    'duolane tools grpc://127.0.0.1:50051',
    `duolane tools 'stdio:node server.js' add '{"a":2,"b":3}'`,
    `duolane tools 'stdio:node server.js' --read file:///notes.txt`,
    `duolane tools 'stdio:node server.js' --prompt review '{"file":"a.ts"}'`,
  ],
  async run(call) {
    const [given = ''] = call.args;
    const { signal, flags } = call;
    const act = readAction(call);
    await using source = await dialSource(given, {
      signal,
      token: textFlag(flags, 'token'),
      protocol: readProtocol(textFlag(flags, 'protocol')),
      timeoutMs: readSeconds(textFlag(flags, 'timeout')),
      capabilities: { elicitation: { form: {} }, sampling: {} },
    });
    // Awaited here: the source closes with this scope.
    return await act(source);
  },
};

/** The flags of which at most one may be given; each replaces the list of the tools. */
const ACTIONS = ['resources', 'read', 'prompts', 'prompt'] as const;

/** What the arguments ask for. Throws `invalid` before anything is started. */
function readAction(call: CommandCall): (source: ToolSource) => Promise<number> {
  const [, first, second = '{}', ...others] = call.args;
  const { flags } = call;
  const [action, ...more] = ACTIONS.filter((flag) => flags[flag] !== undefined);
  if (more.length > 0)
    throw new DuolaneError('invalid', `--${action} and --${more[0]} exclude each other; use one`);
  if (
    action !== undefined &&
    (call.args.length > 2 || (first !== undefined && action !== 'prompt'))
  )
    throw new DuolaneError(
      'invalid',
      `unexpected argument "${others[0] ?? first}" with --${action}: expected only the source`,
    );
  switch (action) {
    case 'resources':
      return (source) => listResources(source, call);
    case 'read':
      return (source) => read(source, textFlag(flags, 'read') ?? '', call);
    case 'prompts':
      return (source) => listPrompts(source, call);
    case 'prompt': {
      const args = readArguments(first ?? '{}');
      return (source) => getPrompt(source, textFlag(flags, 'prompt') ?? '', args, call);
    }
    default: {
      const args = readArguments(second);
      return (source) =>
        first === undefined ? list(source, call) : use(source, { name: first, args }, call);
    }
  }
}

function readSeconds(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  if (/^\d{1,6}(\.\d{1,3})?$/.test(given) && Number(given) > 0) return Number(given) * 1_000;
  throw new DuolaneError('invalid', `invalid --timeout "${given}": expected a number of seconds`);
}

function readArguments(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // reported below
  }
  throw new DuolaneError('invalid', `invalid arguments "${text}": expected a JSON object`);
}

async function list(source: ToolSource, call: CommandCall): Promise<number> {
  const { out } = call.terminal;
  for await (const tool of source.listTools({ signal: call.signal })) {
    if (call.flags['json']) out.line(JSON.stringify(tool));
    else {
      out.line(
        `${out.style('bold', stripControlCharacters(tool.name))}  ${stripControlCharacters(tool.description ?? '')}`,
      );
      out.line(`    ${out.style('dim', parameters(tool.inputSchema))}`);
    }
  }
  return EXIT.ok;
}

function parameters(schema: JsonObject): string {
  const required = asArray(schema['required']);
  const named = Object.entries(asObject(schema['properties'])).map(([name, property]) => {
    const type = asString(asObject(property)['type'], 'any');
    return `${name}${required.includes(name) ? '' : '?'}: ${type}`;
  });
  return stripControlCharacters(`{ ${named.join(', ')} }`);
}

/** A line for an item of a list: its name in bold, then what it is. */
function printItem(out: TextOutput, name: unknown, ...about: readonly unknown[]): void {
  const text = about.filter((each) => typeof each === 'string').join('  ');
  out.line(
    `${out.style('bold', stripControlCharacters(asString(name)))}  ${stripControlCharacters(text)}`,
  );
}

async function listResources(source: ToolSource, call: CommandCall): Promise<number> {
  const { flags, signal, terminal } = call;
  if (!source.listResources) throw hasNone('resources');
  for (const items of [
    source.listResources({ signal }),
    source.listResourceTemplates?.({ signal }),
  ])
    for await (const item of items ?? []) {
      const { uri, uriTemplate, name, description, mimeType } = item;
      if (flags['json']) terminal.out.line(JSON.stringify(item));
      else printItem(terminal.out, uri ?? uriTemplate, name, mimeType, description);
    }
  return EXIT.ok;
}

async function read(source: ToolSource, uri: string, call: CommandCall): Promise<number> {
  const { flags, terminal } = call;
  if (!source.readResource) throw hasNone('resources');
  for await (const entry of source.readResource(uri, askable(call))) {
    const { text, blob, mimeType } = entry;
    if (flags['json']) terminal.out.line(JSON.stringify(entry));
    else if (typeof text === 'string') printForeign(terminal.out, text);
    else {
      const bytes = Buffer.from(asString(blob), 'base64').length;
      const kind = stripControlCharacters(asString(mimeType, 'binary'));
      terminal.out.line(`${kind}, ${bytes} bytes; --json prints them as base64`);
    }
  }
  return EXIT.ok;
}

async function listPrompts(source: ToolSource, call: CommandCall): Promise<number> {
  const { flags, signal, terminal } = call;
  if (!source.listPrompts) throw hasNone('prompts');
  for await (const prompt of source.listPrompts({ signal })) {
    if (flags['json']) terminal.out.line(JSON.stringify(prompt));
    else {
      printItem(terminal.out, prompt['name'], prompt['description']);
      const named = asArray(prompt['arguments']).map((each) => {
        const { name, required } = asObject(each);
        return `${asString(name)}${required === true ? '' : '?'}`;
      });
      const line = stripControlCharacters(`{ ${named.join(', ')} }`);
      terminal.out.line(`    ${terminal.out.style('dim', line)}`);
    }
  }
  return EXIT.ok;
}

async function getPrompt(
  source: ToolSource,
  name: string,
  args: JsonObject,
  call: CommandCall,
): Promise<number> {
  const { flags, terminal } = call;
  if (!source.getPrompt) throw hasNone('prompts');
  const prompt = await source.getPrompt(name, args, askable(call));
  if (flags['json']) terminal.out.line(JSON.stringify(prompt));
  else
    for (const message of asArray(prompt['messages'])) {
      const { role, content } = asObject(message);
      const { text } = asObject(content);
      terminal.out.line(terminal.out.style('bold', stripControlCharacters(asString(role))));
      printForeign(terminal.out, typeof text === 'string' ? text : JSON.stringify(content));
    }
  return EXIT.ok;
}

/** The options of a read or a prompt: the user answers the questions of the server. */
const askable = (call: CommandCall): AskOptions => ({ signal: call.signal, ask: askerOf(call) });

/** Asks the user what the server requests, also for the message of a model. */
function askerOf({ terminal, signal }: CommandCall): Ask {
  const ask = askUser(terminal, { signal, otherwise: 'decline' });
  return async (request) => {
    const { method, params } = asObject(request.data);
    if (method !== 'sampling/createMessage') return ask(request);
    // The request is printed before the question.
    const message = "The server requests a model's message. Write it, or leave it empty to decline";
    const answer = await ask({ ...request, message, data: params });
    if (answer.action !== 'accept' || answer.content === '')
      return { id: answer.id, action: 'decline' };
    const content = { type: 'text', text: answer.content };
    return { ...answer, content: { role: 'assistant', content, model: 'user' } };
  };
}

const hasNone = (what: string): DuolaneError =>
  new DuolaneError('unsupported', `the server has no ${what}; list its tools instead`);

async function use(
  source: ToolSource,
  { name, args }: { readonly name: string; readonly args: JsonObject },
  command: CommandCall,
): Promise<number> {
  const { terminal, flags, signal } = command;
  const { out, err } = terminal;
  let answers: readonly Answer[] = [];
  let state: string | undefined;
  const id = randomUUID();
  const ask = askerOf(command);
  for (;;) {
    let asked: Extract<ToolEvent, { readonly type: 'input' }> | undefined;
    const call = { id, name, args, answers, ...(state !== undefined && { state }) };
    for await (const event of source.callTool(call, { signal })) {
      if (flags['json']) out.line(JSON.stringify(event));
      else show(event, err);
      if (event.type === 'input') asked = event;
      if (event.type !== 'result') continue;
      if (!flags['json']) printResult(out, event.result);
      return event.result.isError === true ? EXIT.failed : EXIT.ok;
    }
    if (!asked)
      throw new DuolaneError(
        'malformed',
        `the tool "${name}" ended without a result: expected one`,
      );
    const given: Answer[] = [];
    for (const request of asked.requests) {
      given.push(await ask(request));
    }
    answers = [...answers, ...given];
    state = asked.state;
  }
}

function show(event: ToolEvent, err: TextOutput): void {
  if (event.type === 'progress') {
    const total = event.total === undefined ? '' : `/${event.total}`;
    printForeign(err, `${event.progress}${total} ${event.message ?? ''}`, 'dim');
  } else if (event.type === 'log' || event.type === 'partial') {
    const what = event.type === 'log' ? event.data : event.content;
    printForeign(err, typeof what === 'string' ? what : JSON.stringify(what), 'dim');
  }
}

function printResult(out: TextOutput, { content, structuredContent, isError }: ToolResult): void {
  for (const block of content) {
    const text = typeof block['text'] === 'string' ? block['text'] : JSON.stringify(block);
    printForeign(out, text, isError ? 'red' : undefined);
  }
  if (structuredContent !== undefined && content.length === 0)
    printForeign(out, JSON.stringify(structuredContent, undefined, 2));
}
