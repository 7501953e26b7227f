import { expect, test } from 'vitest';
import { z } from 'zod';
import type { JsonObject } from '../../src/json.ts';
import {
  type AgentSdk,
  type Extra,
  ofType,
  options,
  Prompts,
  readAll,
  resultOf,
  said,
  scenarios,
  type SdkMessage,
  server,
  toolResults,
} from './drivers.ts';
import { missing, serverV1 } from '../support/mcp/mcp-sdk.ts';
import { suite, verifies } from '../verifies.ts';
import { Workspace } from './workspace.ts';

const long = { text: 'a b c d e f g h i j k l m n o p q r s t', delayMs: 100 };
/** The text that a reader of the raw events has seen. */
const textOf = (messages: readonly SdkMessage[]): string =>
  messages
    .map(({ event }) => (event as { delta?: { text?: string } } | undefined)?.delta?.text ?? '')
    .join('');
const isDelta = (message: JsonObject): boolean =>
  message['type'] === 'stream_event' &&
  (message['event'] as JsonObject)['type'] === 'content_block_delta';

/** A tool that runs until it is cancelled. */
const hanging = (sdk: AgentSdk, onStart: () => void, onAbort: () => void = () => {}): unknown =>
  server(sdk, 'slow', 'hang', {}, async (_: unknown, { signal }: { signal: AbortSignal }) => {
    onStart();
    await new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    onAbort();
    return said('too late');
  });
const call = { tools: [{ name: 'mcp__slow__hang' }] };

scenarios('interrupts and ends', (sdk) => {
  test('interrupt while streaming: the partial text is kept and the session continues', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ when: 'long', ...long }, { text: 'Second turn works.' }]);
    const prompts = new Prompts();
    prompts.send('long');
    const query = sdk.query({
      prompt: prompts,
      options: options(ws, model, { includePartialMessages: true }),
    });
    let interrupted = false;
    let results = 0;
    const run = await readAll(query, (message) => {
      if (isDelta(message) && !interrupted) {
        interrupted = true;
        void query.interrupt();
      }
      if (message.type !== 'result') return;
      if (++results === 1) prompts.send('second');
      else prompts.end();
    });
    expect(run.error).toBeUndefined();
    expect(ofType(run, 'assistant')[0]).toMatchObject({ aborted: true });
    expect(
      ofType(run, 'result').map(({ subtype, terminal_reason }) => [subtype, terminal_reason]),
    ).toEqual([
      ['error_during_execution', 'aborted_streaming'],
      ['success', 'completed'],
    ]);
  });

  test('interrupt during a tool call cancels the tool', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([call]);
    const prompts = new Prompts();
    prompts.send('go');
    let aborted = false;
    let start = (): void => {};
    const started = new Promise<void>((resolve) => (start = resolve));
    const slow = hanging(sdk, start, () => (aborted = true));
    const query = sdk.query({
      prompt: prompts,
      options: options(ws, model, { mcpServers: { slow }, allowedTools: ['mcp__slow__*'] }),
    });
    void started.then(() => query.interrupt());
    const run = await readAll(query, ({ type }) => type === 'result' && prompts.end());
    expect(resultOf(run)).toMatchObject({ terminal_reason: 'aborted_tools', is_error: true });
    expect(toolResults(run)[0]).toMatchObject({ is_error: true });
    expect(run.error?.message).toContain('returned an error result');
    expect(aborted).toBe(true);
  });

  test('interrupt during a permission request cancels the request', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([call]);
    const prompts = new Prompts();
    prompts.send('go');
    let withdrawn = false;
    const canUseTool = async (_: string, __: unknown, { signal }: { signal: AbortSignal }) => {
      void query.interrupt();
      await new Promise<void>((resolve) =>
        signal.addEventListener('abort', () => resolve(), { once: true }),
      );
      withdrawn = true;
      return { behavior: 'deny', message: 'too late' };
    };
    const query = sdk.query({
      prompt: prompts,
      options: options(ws, model, { mcpServers: { slow: hanging(sdk, () => {}) }, canUseTool }),
    });
    const run = await readAll(query, ({ type }) => type === 'result' && prompts.end());
    expect(withdrawn).toBe(true);
    expect(resultOf(run)).toMatchObject({
      terminal_reason: 'aborted_tools',
      permission_denials: [expect.anything()],
    });
  });

  test('abort during a tool call ends the process', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([call, { text: 'never mind' }]);
    const abortController = new AbortController();
    const slow = hanging(sdk, () => abortController.abort());
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          mcpServers: { slow },
          allowedTools: ['mcp__slow__*'],
          abortController,
        }),
      }),
    );
    expect(run.error).toBeInstanceOf(Error);
  });

  // Our host ends the run by an interrupt, and then throws the error result that it caused itself.
  test('close during a turn ends the iteration without an error', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([call, { text: 'never mind' }]);
    const slow = hanging(sdk, () => query.close());
    const query = sdk.query({
      prompt: 'go',
      options: options(ws, model, { mcpServers: { slow }, allowedTools: ['mcp__slow__*'] }),
    });
    const run = await readAll(query);
    expect(run.error).toBeUndefined();
  });

  test('maxTurns ends an endless loop', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ repeat: true, tools: [{ name: 'mcp__s__t' }] }]);
    const s = server(sdk, 's', 't', {}, async () => said('again'));
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          maxTurns: 2,
          mcpServers: { s },
          allowedTools: ['mcp__s__*'],
        }),
      }),
    );
    expect(resultOf(run)).toMatchObject({
      subtype: 'error_max_turns',
      num_turns: 3,
      errors: ['Reached maximum number of turns (2)'],
    });
    expect(run.error?.message).toContain('Reached maximum number of turns (2)');
  });

  test('maxBudgetUsd ends a loop that costs too much, if prices are known', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { repeat: true, tools: [{ name: 'mcp__s__t' }], usage: { output_tokens: 1000 } },
    ]);
    const s = server(sdk, 's', 't', {}, async () => said('again'));
    const settings = { prices: { [model]: { input: 0, output: 100 } } };
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          maxBudgetUsd: 0.15,
          settings,
          mcpServers: { s },
          allowedTools: ['mcp__s__*'],
        }),
      }),
    );
    expect(resultOf(run)).toMatchObject({ subtype: 'error_max_budget_usd', total_cost_usd: 0.2 });
  });
});

scenarios('errors of the model', (sdk) => {
  const fast = { DUOLANE_RETRY_BASE_MS: '1' };
  const ask = async (script: JsonObject[], more: JsonObject = {}) => {
    await using ws = await Workspace.open(fast);
    const model = await ws.script(script);
    return await readAll(sdk.query({ prompt: 'go', options: options(ws, model, more) }));
  };

  test('two failures are retried and reported', async () => {
    const run = await ask([
      { error: { status: 529 } },
      { error: { status: 429 } },
      { text: 'ok after retry' },
    ]);
    expect(run.error).toBeUndefined();
    expect(
      ofType(run, 'system', 'api_retry').map(({ attempt, max_retries, error_status, error }) => [
        attempt,
        max_retries,
        error_status,
        error,
      ]),
    ).toEqual([
      [1, 2, 529, 'overloaded'],
      [2, 2, 429, 'rate_limit'],
    ]);
    expect(resultOf(run)).toMatchObject({ result: 'ok after retry' });
  });

  verifies('S202', 'after the last attempt: one failed message, one failed result', async () => {
    const run = await ask([{ repeat: true, error: { status: 500, message: 'boom' } }]);
    expect(ofType(run, 'system', 'api_retry')).toHaveLength(2);
    expect(ofType(run, 'result')).toHaveLength(1);
    expect(ofType(run, 'assistant')[0]).toMatchObject({
      error: 'server_error',
      api_error_status: 500,
    });
    expect(resultOf(run)).toMatchObject({
      subtype: 'success',
      is_error: true,
      terminal_reason: 'api_error',
      api_error_status: 500,
    });
    expect(run.error?.message).toContain('500 boom');
  });

  test('the fallback replaces a model that stays overloaded, and partial text is withdrawn', async () => {
    await using ws = await Workspace.open(fast);
    const model = await ws.script([
      { repeat: true, text: 'half an', cut: true, error: { status: 529 } },
    ]);
    const fallbackModel = await ws.script([
      { text: 'from the other' },
      { text: 'still the other' },
    ]);
    const prompts = new Prompts();
    prompts.send('one');
    let results = 0;
    const run = await readAll(
      sdk.query({ prompt: prompts, options: options(ws, model, { fallbackModel }) }),
      ({ type }) => {
        if (type !== 'result') return;
        if (++results === 1) prompts.send('two');
        else prompts.end();
      },
    );
    expect(run.error).toBeUndefined();
    expect(ofType(run, 'system', 'api_retry')).toHaveLength(3);
    expect(ofType(run, 'system', 'informational')).toMatchObject([
      { tag: 'model_fallback', from_model: model, to_model: fallbackModel },
    ]);
    expect(ofType(run, 'result').map(({ result }) => result)).toEqual([
      'from the other',
      'still the other',
    ]);
  });

  test('the fallback is not used for an invalid request', async () => {
    await using ws = await Workspace.open(fast);
    const model = await ws.script([{ error: { status: 400, message: 'bad request' } }]);
    const fallbackModel = await ws.script([{ text: 'never' }]);
    const run = await readAll(
      sdk.query({ prompt: 'go', options: options(ws, model, { fallbackModel }) }),
    );
    expect(resultOf(run)).toMatchObject({ is_error: true, api_error_status: 400 });
  });

  test('other 4xx are reported without a retry', async () => {
    const run = await ask([{ error: { status: 400, message: 'bad request' } }]);
    expect(ofType(run, 'system', 'api_retry')).toEqual([]);
    expect(resultOf(run)).toMatchObject({ is_error: true, api_error_status: 400 });
  });

  verifies('S206', 'text before a lost connection is withdrawn', async () => {
    const run = await ask([{ text: 'half an answ', cut: true }, { text: 'whole' }], {
      includePartialMessages: true,
    });
    expect(run.error).toBeUndefined();
    const [retry] = ofType(run, 'system', 'api_retry');
    expect(retry).toMatchObject({ error_status: null, discard: true });
    const abandoned = ofType(run, 'stream_event').filter(
      (message) => 'abandoned_blocks' in message,
    );
    expect(abandoned).toMatchObject([
      { event: { type: 'message_stop' }, abandoned_blocks: { from_block_index: 0 } },
    ]);
    // Nothing of the failed answer comes after it was withdrawn.
    const after = run.messages.slice(run.messages.indexOf(retry as SdkMessage));
    expect(textOf(after)).toBe('whole');
    expect(textOf(run.messages)).toBe('half an answwhole');
    expect(resultOf(run)).toMatchObject({ result: 'whole' });
  });
});

scenarios('structured output', (sdk) => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const ask = async (script: JsonObject[]) => {
    await using ws = await Workspace.open();
    const model = await ws.script(script);
    return await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, { outputFormat: { type: 'json_schema', schema } }),
      }),
    );
  };
  const output = (input: JsonObject): JsonObject => ({
    tools: [{ name: 'StructuredOutput', input }],
  });

  test('an invalid output is corrected', async () => {
    const run = await ask([output({ city: 5 }), output({ city: 'Berlin' })]);
    expect(toolResults(run)[0]).toMatchObject({
      is_error: true,
      content: expect.stringContaining('/city: must be string'),
    });
    expect(resultOf(run)).toMatchObject({
      subtype: 'success',
      structured_output: { city: 'Berlin' },
      result: '{"city":"Berlin"}',
    });
  });

  test('a model that does not call the tool is reminded of it', async () => {
    const run = await ask([{ text: 'It is Oslo.' }, output({ city: 'Oslo' })]);
    expect(ofType(run, 'user')[0]).toMatchObject({ isSynthetic: true });
    expect(resultOf(run)).toMatchObject({ structured_output: { city: 'Oslo' }, num_turns: 3 });
  });

  test('after five failures the turn ends with an error', async () => {
    const run = await ask([{ ...output({ city: 1 }), repeat: true }]);
    expect(resultOf(run)).toMatchObject({
      subtype: 'error_max_structured_output_retries',
      is_error: true,
    });
    expect(toolResults(run)).toHaveLength(5);
  });
});

scenarios('sessions', (sdk) => {
  const turn = async (ws: Workspace, prompt: string, more: JsonObject = {}) => {
    const model = await ws.script([
      { when: '^[^]*blue[^]*$', text: 'noted' },
      { when: 'colour', text: 'unknown' },
    ]);
    return await readAll(sdk.query({ prompt, options: options(ws, model, more) }));
  };
  /** A model that sees everything said so far. */
  const recall = async (ws: Workspace, more: JsonObject) => {
    const file = `${ws.root}/recall.mjs`;
    const { writeFile } = await import('node:fs/promises');
    await writeFile(
      file,
      'export default ({ messages }) => JSON.stringify(messages).includes("blue") ? "blue" : "no idea";',
    );
    return await readAll(
      sdk.query({ prompt: 'Which colour?', options: options(ws, `module:${file}`, more) }),
    );
  };

  test('resume keeps the id and the history', async () => {
    await using ws = await Workspace.open();
    const id = resultOf(await turn(ws, 'My colour is blue'))['session_id'];
    const run = await recall(ws, { resume: id });
    expect(resultOf(run)).toMatchObject({ result: 'blue', session_id: id });
  });

  test('continue takes the newest session', async () => {
    await using ws = await Workspace.open();
    const id = resultOf(await turn(ws, 'My colour is blue'))['session_id'];
    expect(resultOf(await recall(ws, { continue: true }))).toMatchObject({
      result: 'blue',
      session_id: id,
    });
  });

  test('forkSession gives a new id with the history', async () => {
    await using ws = await Workspace.open();
    const id = resultOf(await turn(ws, 'My colour is blue'))['session_id'];
    const fork = resultOf(await recall(ws, { resume: id, forkSession: true }));
    expect(fork).toMatchObject({ result: 'blue' });
    expect(fork['session_id']).not.toBe(id);
    expect(resultOf(await recall(ws, { resume: fork['session_id'] }))).toMatchObject({
      result: 'blue',
    });
  });

  test('resumeSessionAt takes the history up to that message', async () => {
    await using ws = await Workspace.open();
    const first = await turn(ws, 'Which colour?');
    const id = resultOf(first)['session_id'];
    const at = first.messages.find(({ type }) => type === 'assistant')?.['uuid'];
    await turn(ws, 'My colour is blue', { resume: id });
    expect(resultOf(await recall(ws, { resume: id, forkSession: true }))).toMatchObject({
      result: 'blue',
    });
    const earlier = { resume: id, resumeSessionAt: at, forkSession: true };
    expect(resultOf(await recall(ws, earlier))).toMatchObject({ result: 'no idea' });
  });

  test('sessionId sets the id, persistSession false keeps nothing', async () => {
    await using ws = await Workspace.open();
    const sessionId = '99999999-9999-4999-8999-999999999999';
    const run = await turn(ws, 'My colour is blue', { sessionId, persistSession: false });
    expect(resultOf(run)).toMatchObject({ session_id: sessionId });
    expect(resultOf(await recall(ws, { resume: sessionId }))).toMatchObject({ is_error: true });
  });

  test('resuming an unknown session gives one error result', async () => {
    await using ws = await Workspace.open();
    const run = await recall(ws, { resume: '88888888-8888-4888-8888-888888888888' });
    expect(resultOf(run)).toMatchObject({
      subtype: 'error_during_execution',
      errors: [expect.stringContaining('No conversation found')],
    });
    expect(run.error).toBeInstanceOf(Error);
  });

  test('a session store of the host gets every entry and can restore a session', async () => {
    await using ws = await Workspace.open();
    const sessionStore = new sdk.InMemorySessionStore();
    const id = resultOf(await turn(ws, 'My colour is blue', { sessionStore }))['session_id'];
    const { rm } = await import('node:fs/promises');
    await rm(ws.config, { recursive: true });
    expect(resultOf(await recall(ws, { resume: id, sessionStore }))).toMatchObject({
      result: 'blue',
    });
  });
});

scenarios('session end', (sdk) => {
  test('a SessionEnd hook is called, and no message is lost', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ text: 'done' }]);
    const called: string[] = [];
    const hook = async (input: JsonObject): Promise<JsonObject> => {
      called.push(String(input['hook_event_name']));
      return {};
    };
    const hooks = { SessionEnd: [{ hooks: [hook] }] };
    const run = await readAll(sdk.query({ prompt: 'go', options: options(ws, model, { hooks }) }));
    expect(run).toMatchObject({ error: undefined });
    expect(run.messages.at(-1)).toMatchObject({ type: 'result', result: 'done' });
    await expect.poll(() => called).toEqual(['SessionEnd']);
  });
});

/** How a server object of the MCP SDK asks. */
type Asker = Readonly<
  Record<
    'elicitInput' | 'createMessage' | 'listRoots',
    (params?: JsonObject) => Promise<JsonObject>
  >
>;

scenarios('requests of MCP servers', (sdk) => {
  const answering = (asked: JsonObject[]) => async (request: JsonObject) => {
    asked.push(request);
    return { action: 'accept', content: { name: 'Ada' } };
  };
  const question = {
    message: 'Who are you?',
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
  };
  const sampling = {
    messages: [{ role: 'user', content: { type: 'text', text: 'translate hello' } }],
    maxTokens: 50,
  };
  const settings = JSON.stringify({ sampling: { servers: ['ask'] } });
  const wordsOf = (sampled: JsonObject, roots: unknown): string =>
    `${String((sampled['content'] as JsonObject)['text'])} ${(roots as unknown[]).length}`;

  test('an in-process tool can ask the user (elicitation)', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { tools: [{ name: 'mcp__ask__name' }] },
      { text: 'Hello {{last}}' },
    ]);
    const ask = server(sdk, 'ask', 'name', {}, async (_: unknown, { sendRequest }: Extra) => {
      const request = { method: 'elicitation/create', params: question };
      const { content } = await sendRequest(request, z.any());
      return said(String((content as JsonObject)['name']));
    });
    const asked: JsonObject[] = [];
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          mcpServers: { ask },
          allowedTools: ['mcp__ask__*'],
          onElicitation: answering(asked),
        }),
      }),
    );
    expect(asked).toMatchObject([{ serverName: 'ask', message: 'Who are you?' }]);
    expect(resultOf(run)).toMatchObject({ result: 'Hello Ada' });
  });

  test('an in-process tool can ask the model (sampling) and for the roots', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { when: '^go$', tools: [{ name: 'mcp__ask__sample' }] },
      { when: 'translate', text: 'bonjour' },
      { text: 'end: {{last}}' },
    ]);
    const ask = server(sdk, 'ask', 'sample', {}, async (_: unknown, { sendRequest }: Extra) => {
      const sampled = await sendRequest(
        { method: 'sampling/createMessage', params: sampling },
        z.any(),
      );
      const { roots } = await sendRequest({ method: 'roots/list' }, z.any());
      return said(wordsOf(sampled, roots));
    });
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          mcpServers: { ask },
          allowedTools: ['mcp__ask__*'],
          settings,
        }),
      }),
    );
    expect(resultOf(run)).toMatchObject({ result: 'end: bonjour 1' });
  });

  suite('mcp-sdk', missing, () => {
    test('a server object of the MCP SDK can do both', async () => {
      await using ws = await Workspace.open();
      const model = await ws.script([
        { when: '^go$', tools: [{ name: 'mcp__ask__all' }] },
        { when: 'translate', text: 'bonjour' },
        { text: 'end: {{last}}' },
      ]);
      const { server: instance, add } = serverV1();
      add('all', 'Asks everybody', {}, async () => {
        const { server: asker } = instance as unknown as { readonly server: Asker };
        const { content } = await asker.elicitInput(question);
        const sampled = await asker.createMessage(sampling);
        const { roots } = await asker.listRoots();
        return said(`${String((content as JsonObject)['name'])} ${wordsOf(sampled, roots)}`);
      });
      const asked: JsonObject[] = [];
      const run = await readAll(
        sdk.query({
          prompt: 'go',
          options: options(ws, model, {
            mcpServers: { ask: { type: 'sdk', name: 'ask', instance } },
            allowedTools: ['mcp__ask__*'],
            onElicitation: answering(asked),
            settings,
          }),
        }),
      );
      expect(resultOf(run)).toMatchObject({ result: 'end: Ada bonjour 1' });
      expect(asked).toMatchObject([{ serverName: 'ask', message: 'Who are you?' }]);
    });
  });

  test('progress of a tool is passed on', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ tools: [{ name: 'mcp__p__work' }] }, { text: 'done' }]);
    let seenProgress = (): void => {};
    const seen = new Promise<void>((resolve) => (seenProgress = resolve));
    const p = server(
      sdk,
      'p',
      'work',
      {},
      async (_: unknown, { _meta: { progressToken }, sendNotification }: Extra) => {
        const params = { progressToken, progress: 1, total: 2 };
        await sendNotification({ method: 'notifications/progress', params });
        await seen;
        return said('worked');
      },
    );
    const run = await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, { mcpServers: { p }, allowedTools: ['mcp__p__*'] }),
      }),
      ({ type }) => type === 'tool_progress' && seenProgress(),
    );
    expect(ofType(run, 'tool_progress')).toMatchObject([
      { tool_use_id: 'toolu_script_1', progress: 1, total: 2 },
    ]);
  });
});
