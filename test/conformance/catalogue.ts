import type { InputRequest } from '../../src/ask.ts';
import { DuolaneError } from '../../src/errors.ts';
import type { JsonObject } from '../../src/json.ts';
import { sleep } from '../../src/stream/abort.ts';
import { ChangeFeed } from '../../src/mcp/sources/change-feed.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { ToolContext, ToolDefinition, ToolEvent, ToolSource } from '../../src/mcp/types.ts';

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const text = (value: string): JsonObject => ({ type: 'text', text: value });
const embedded = (uri: string, mimeType: string, value: string): JsonObject => ({
  type: 'resource',
  resource: { uri, mimeType, text: value },
});

type Result = { content: JsonObject[]; isError?: boolean };
const blocks =
  (...content: JsonObject[]) =>
  (): Result => ({ content });

const object = (properties: JsonObject, required: string[] = []): JsonObject => ({
  type: 'object',
  properties,
  required,
});

const elicitation = (
  id: string,
  message: string,
  schema: JsonObject,
): Omit<InputRequest, 'callId'> => ({ id, kind: 'question', message, schema });

const other = (id: string, method: string, params: JsonObject): InputRequest => ({
  id,
  kind: 'question',
  data: { method, params },
});

const sampling = (id: string, prompt: string): InputRequest =>
  other(id, 'sampling/createMessage', {
    messages: [{ role: 'user', content: text(prompt) }],
    maxTokens: 100,
  });

const roots = other('client_roots', 'roots/list', {});
const name = elicitation('user_name', 'What is your name?', object({ name: { type: 'string' } }));

const contentOf = async (ctx: ToolContext, request: InputRequest): Promise<JsonObject> => {
  const { action, content } = await ctx.ask(request);
  return { action, ...(content as JsonObject) };
};

const asks = (id: string, describe: (answer: JsonObject) => string, request: InputRequest) =>
  tool(id, id, {}, async (_, ctx) => describe(await contentOf(ctx, request)));

const told = (answer: JsonObject): string => {
  const { action, ...content } = answer;
  return `Elicitation completed: action=${String(action)}, content=${JSON.stringify(content)}`;
};

/** The tools, resources and prompts that the conformance suite expects of a server. */
export function conformanceSource(): ToolSource {
  const changes = new ChangeFeed();
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));
  const logs = async function* (): AsyncGenerator<ToolEvent, string> {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool completed']) {
      yield { type: 'log', level: 'info', data };
      await pause();
    }
    return 'logged';
  };
  const tools: ToolDefinition[] = [
    tool('test_simple_text', 'Text', {}, () => 'This is a simple text response for testing.'),
    tool('test_image_content', 'Image', {}, blocks(image)),
    tool(
      'test_audio_content',
      'Audio',
      {},
      blocks({ type: 'audio', data: WAV, mimeType: 'audio/wav' }),
    ),
    tool(
      'test_embedded_resource',
      'Resource',
      {},
      blocks(embedded('test://embedded-resource', 'text/plain', 'An embedded resource.')),
    ),
    tool(
      'test_multiple_content_types',
      'All',
      {},
      blocks(
        text('Multiple content types test:'),
        image,
        embedded('test://mixed-content-resource', 'application/json', '{"test":"data"}'),
      ),
    ),
    tool('test_error_handling', 'Fails', {}, () => {
      throw new Error('This tool intentionally returns an error for testing');
    }),
    tool('test_tool_with_logging', 'Logs', {}, logs),
    tool('test_logging_tool', 'Logs', {}, logs),
    tool('test_tool_with_progress', 'Progress', {}, async (_, ctx) => {
      for (const done of [0, 50, 100]) {
        await ctx.progress(done, 100);
        await pause();
      }
      return 'done';
    }),
    tool('test_sampling', 'Samples', object({ prompt: { type: 'string' } }), async (args, ctx) => {
      const { prompt } = args as { prompt: string };
      return `LLM response: ${JSON.stringify(await contentOf(ctx, sampling('sample', prompt)))}`;
    }),
    tool('test_elicitation', 'Asks', object({ message: { type: 'string' } }), async (args, ctx) => {
      const { message } = args as { message: string };
      const schema = object({ username: { type: 'string' }, email: { type: 'string' } }, [
        'username',
      ]);
      return told(await contentOf(ctx, elicitation('who', message, schema)));
    }),
    asks(
      'test_elicitation_sep1034_defaults',
      told,
      elicitation(
        'all',
        'Please review the defaults',
        object({
          name: { type: 'string', default: 'John Doe' },
          age: { type: 'integer', default: 30 },
          score: { type: 'number', default: 95.5 },
          status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
          verified: { type: 'boolean', default: true },
        }),
      ),
    ),
    asks(
      'test_elicitation_sep1330_enums',
      told,
      elicitation(
        'enums',
        'Please choose',
        object({
          untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
          titledSingle: {
            type: 'string',
            oneOf: [1, 2, 3].map((n) => ({ const: `value${n}`, title: `Option ${n}` })),
          },
          legacyEnum: {
            type: 'string',
            enum: ['opt1', 'opt2', 'opt3'],
            enumNames: ['Option One', 'Option Two', 'Option Three'],
          },
          untitledMulti: {
            type: 'array',
            items: { type: 'string', enum: ['option1', 'option2', 'option3'] },
          },
          titledMulti: {
            type: 'array',
            items: { anyOf: [1, 2, 3].map((n) => ({ const: `value${n}`, title: `Choice ${n}` })) },
          },
        }),
      ),
    ),
    ...modernTools(changes),
    ...taskTools(),
  ];
  const registry = createRegistry({ name: 'duolane-conformance', tools });
  return {
    info: registry.info,
    listTools: (options) => registry.listTools(options),
    callTool: (call, options) => {
      if (call.name === 'protocol_error_job')
        throw new DuolaneError('internal', 'the server of this tool fails');
      return registry.callTool(call, options);
    },
    listen: (options) => changes.listen(options),
    ...resources,
    ...prompts,
    complete: async () => ({ completion: { values: ['paris', 'park'], total: 2, hasMore: false } }),
  };
}

/** The tools of the catalogue that become tasks. */
export const longTool = (tool: string): boolean | 'required' =>
  tool === 'failing_job' ? 'required' : LONG.has(tool);

const LONG: ReadonlySet<string> = new Set([
  'slow_compute',
  'confirm_delete',
  'multi_input',
  'protocol_error_job',
]);

function taskTools(): ToolDefinition[] {
  const confirm = (id: string): InputRequest =>
    elicitation(id, `Confirm ${id}?`, object({ confirm: { type: 'boolean' } }));
  return [
    tool('greet', 'Greets', object({ name: { type: 'string' } }), (args) => {
      const { name: who } = args as { name: string };
      return `Hello, ${who}!`;
    }),
    tool('slow_compute', 'Sleeps', object({ seconds: { type: 'number' } }), async (args, ctx) => {
      const { seconds } = args as { seconds: number };
      await sleep(seconds * 1_000, ctx.signal);
      return 'computed';
    }),
    tool('failing_job', 'Fails', {}, async (_, ctx) => {
      await sleep(1_000, ctx.signal);
      throw new Error('this job always fails');
    }),
    tool('protocol_error_job', 'Fails outside of the tool', {}, () => 'never'),
    tool('confirm_delete', 'Asks', object({ filename: { type: 'string' } }), async (_, ctx) =>
      told(await contentOf(ctx, confirm('confirm'))),
    ),
    tool('multi_input', 'Asks twice', {}, async (_, ctx) =>
      JSON.stringify(
        await Promise.all(['first', 'second'].map((id) => contentOf(ctx, confirm(id)))),
      ),
    ),
    tool('test_tool_with_task', 'Asks, then goes on as a task', {}, async (_, ctx) => {
      const { name: who } = await contentOf(ctx, name);
      await ctx.continueAsTask();
      return `Hello, ${String(who)}!`;
    }),
  ];
}

const RICH_SCHEMA: JsonObject = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { $anchor: 'addressDef', type: 'object' } },
  properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
  allOf: [{ anyOf: [{ required: ['name'] }, { required: ['address'] }] }],
  if: { required: ['address'] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { required: ['name'] },
  else: {},
  additionalProperties: false,
};

function modernTools(changes: ChangeFeed): ToolDefinition[] {
  return [
    tool('json_schema_2020_12_tool', 'Rich', RICH_SCHEMA, () => 'done'),
    tool(
      'test_x_mcp_header',
      'Mirrors',
      object({ region: { type: 'string', 'x-mcp-header': 'Region' } }),
      () => 'done',
    ),
    asks(
      'test_input_required_result_elicitation',
      ({ name: who }) => `Hello, ${String(who)}!`,
      name,
    ),
    asks('test_missing_capability', JSON.stringify, sampling('sample', 'Hello')),
    asks('test_streaming_elicitation', told, name),
    asks('test_input_required_result_tampered_state', told, name),
    asks('test_input_required_result_request_state', () => 'state-ok', name),
    asks(
      'test_input_required_result_sampling',
      JSON.stringify,
      sampling('capital_question', 'Capital of France?'),
    ),
    asks('test_input_required_result_list_roots', JSON.stringify, roots),
    tool('test_input_required_result_multiple_inputs', 'Three', {}, async (_, ctx) =>
      JSON.stringify(
        await Promise.all(
          [name, sampling('greeting', 'Greet'), roots].map((each) => contentOf(ctx, each)),
        ),
      ),
    ),
    tool('test_input_required_result_multi_round', 'Rounds', {}, async (_, ctx) => {
      const first = await contentOf(
        ctx,
        elicitation('step1', 'Name?', object({ name: { type: 'string' } })),
      );
      const second = await contentOf(
        ctx,
        elicitation('step2', 'Color?', object({ color: { type: 'string' } })),
      );
      return JSON.stringify([first, second]);
    }),
    tool('test_input_required_result_capabilities', 'Samples', {}, async (_, ctx) =>
      JSON.stringify(await contentOf(ctx, sampling('sample', 'Hello'))),
    ),
    tool('test_trigger_tool_change', 'Changes', {}, () => {
      changes.notify({ type: 'tools' });
      return 'changed';
    }),
    tool('test_trigger_prompt_change', 'Changes', {}, () => {
      changes.notify({ type: 'prompts' });
      return 'changed';
    }),
  ];
}

const contents: Readonly<Record<string, JsonObject>> = {
  'test://static-text': {
    mimeType: 'text/plain',
    text: 'This is the content of the static text resource.',
  },
  'test://static-binary': { mimeType: 'image/png', blob: PIXEL },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched.' },
};

const resources: Partial<ToolSource> = {
  async *listResources() {
    for (const [uri, { mimeType }] of Object.entries(contents)) yield { uri, name: uri, mimeType };
  },
  async *listResourceTemplates() {
    yield {
      uriTemplate: 'test://template/{id}/data',
      name: 'template',
      mimeType: 'application/json',
    };
  },
  async *readResource(uri) {
    const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
    if (id !== undefined)
      yield { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true }) };
    else if (contents[uri]) yield { uri, ...contents[uri] };
    else throw new DuolaneError('not_found', `unknown resource "${uri}"`);
  },
};

const said = (...content: JsonObject[]): JsonObject => ({
  messages: content.map((each) => ({ role: 'user', content: each })),
});

const prompts: Partial<ToolSource> = {
  async *listPrompts() {
    yield { name: 'test_simple_prompt', description: 'Simple' };
    yield { name: 'test_input_required_result_prompt', description: 'Asks' };
    const argument = (key: string): JsonObject => ({ name: key, description: key, required: true });
    yield {
      name: 'test_prompt_with_arguments',
      description: 'Arguments',
      arguments: ['arg1', 'arg2'].map(argument),
    };
    yield {
      name: 'test_prompt_with_embedded_resource',
      description: 'Resource',
      arguments: [argument('resourceUri')],
    };
    yield { name: 'test_prompt_with_image', description: 'Image' };
  },
  async getPrompt(prompt, args, { ask } = {}) {
    switch (prompt) {
      case 'test_input_required_result_prompt':
        return said(text(JSON.stringify(await ask?.(name))));
      case 'test_simple_prompt':
        return said(text('This is a simple prompt for testing.'));
      case 'test_prompt_with_arguments':
        return said(
          text(
            `Prompt with arguments: arg1='${String(args['arg1'])}', arg2='${String(args['arg2'])}'`,
          ),
        );
      case 'test_prompt_with_embedded_resource':
        return said(
          embedded(String(args['resourceUri']), 'text/plain', 'Embedded.'),
          text('Please process it.'),
        );
      case 'test_prompt_with_image':
        return said(image, text('Please analyze the image above.'));
      default:
        throw new DuolaneError('not_found', `unknown prompt "${prompt}"`);
    }
  },
};
