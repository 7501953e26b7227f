import { randomUUID } from 'node:crypto';
import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../json.ts';
import type { ToolEvent, ToolResult, ToolSource } from '../../mcp/index.ts';
import { EXIT, textFlag, type Command, type CommandCall } from '../command.ts';
import { askUser } from '../terminal/prompt-user.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import { printForeign } from '../terminal/entry-printer.ts';
import { dialSource, SOURCES } from './dial-source.ts';
import type { TextOutput } from '../terminal/terminal.ts';

export const tools: Command = {
  usage: '<source> [tool [arguments as JSON]] [options]',
  required: ['<source>'],
  expected: `an MCP server, e.g. duolane tools 'stdio:node server.js'`,
  most: 3,
  options: {
    token: { value: 'bearer', text: 'sent to the server as its bearer token' },
    json: { text: 'print tools, or the events of the call, as JSON, one per line' },
  },
  details: [
    `The source is ${SOURCES}.`,
    'Without a tool, it lists all tools as they arrive. With a tool, it calls it and prints its progress\n' +
      'on stderr. Exit code 1 if the tool failed.',
  ],
  examples: [
    "duolane tools 'stdio:node server.js'",
    'duolane tools http://127.0.0.1:3000/mcp',
    'duolane tools grpc://127.0.0.1:50051',
    `duolane tools 'stdio:node server.js' add '{"a":2,"b":3}'`,
  ],
  async run(call) {
    const [given = '', name, text = '{}'] = call.args;
    const args = readArguments(text);
    const { signal, flags } = call;
    await using source = await dialSource(given, { signal, token: textFlag(flags, 'token') });
    // Awaited here: the source closes with this scope.
    return await (name === undefined ? list(source, call) : use(source, { name, args }, call));
  },
};

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

async function use(
  source: ToolSource,
  { name, args }: { readonly name: string; readonly args: JsonObject },
  { terminal, flags, signal }: CommandCall,
): Promise<number> {
  const { out, err } = terminal;
  let answers: readonly Answer[] = [];
  let state: string | undefined;
  const id = randomUUID();
  const ask = askUser(terminal, { signal, otherwise: 'decline' });
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
