import fc from 'fast-check';
import { expect, test } from 'vitest';
import { lawfulLog } from '../../../test/support/arbitraries.ts';
import type { JsonObject } from '../../json.ts';
import { CLIENT_10, type ClientDialect } from '../protocol/client-dialect.ts';
import type { Dialect, Operation } from '../protocol/dialect.ts';
import { a2aEncoder } from '../protocol/stream-encoder.ts';
import type { PushConfig } from '../protocol/model.ts';
import { grpcMethods, type JsonMethod } from './codec.ts';
import {
  CLIENT_03_GRPC,
  DIALECT_03_GRPC,
  DIALECT_10_GRPC,
  takeEventId,
  withEventId,
} from './grpc-dialects.ts';

const ENDS: readonly (readonly [Dialect, ClientDialect])[] = [
  [DIALECT_10_GRPC, CLIENT_10],
  [DIALECT_03_GRPC, CLIENT_03_GRPC],
];
const methods = ({ version }: Dialect): ReadonlyMap<Operation, JsonMethod> =>
  new Map(grpcMethods(version));

/** What a message is when it has been bytes. */
const over = (codec: JsonMethod['request'], message: unknown): JsonObject =>
  codec.decode(codec.encode(message as JsonObject));

for (const [server, client] of ENDS)
  test(`the client decodes every event as the server sent it (${server.version})`, () => {
    const { response } = methods(server).get('stream')!;
    fc.assert(
      fc.property(lawfulLog, (entries) => {
        const encoder = a2aEncoder();
        for (const event of entries.flatMap((entry) => encoder.encode(entry))) {
          const sent = withEventId(server.encodeEvent(event, false) as JsonObject, '7');
          const [received, id] = takeEventId(over(response, sent));
          expect(id).toBe('7');
          // As JSON has it: what is undefined is not there. 0.3 has data only in objects, and no types.
          const read = JSON.stringify(client.decodeEvent(received).event);
          if (server.version === '1.0') expect(JSON.parse(read)).toEqual(asJson(event));
          else expect(statesOf(read)).toEqual(statesOf(JSON.stringify(event)));
        }
      }),
      { numRuns: 100 },
    );
  });

const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const statesOf = (text: string): readonly string[] =>
  [...text.matchAll(/"(?:state|taskId|artifactId|text)":("(?:[^"\\]|\\.)*")/g)]
    .map(([, word]) => String(word))
    .filter((word) => word !== '""')
    .toSorted();

const id = fc.stringMatching(/^[A-Za-z0-9_.~-]{1,20}$/);
const config = fc.record(
  {
    taskId: id,
    id,
    url: fc.webUrl(),
    token: fc.stringMatching(/^[ -~]{1,10}$/),
    authentication: fc.record({ scheme: fc.constant('Bearer'), credentials: id }),
  },
  { requiredKeys: ['taskId', 'id', 'url'] },
);

for (const [server, client] of ENDS)
  test(`the server decodes every request as the client sent it (${server.version})`, () => {
    const request = (operation: Operation, params: JsonObject): JsonObject => {
      const sent = client.encode(operation, params);
      const method = methods(server).get(operation)!;
      return server.decode(operation, over(method.request, sent));
    };
    fc.assert(
      fc.property(config, fc.integer({ min: 1, max: 50 }), (push, historyLength) => {
        const { taskId, id: configId } = push;
        expect(request('createPush', push)).toMatchObject(push);
        for (const operation of ['getPush', 'deletePush'] as const)
          expect(request(operation, { taskId, id: configId })).toEqual({ taskId, id: configId });
        expect(request('listPush', { taskId })).toMatchObject({ taskId });
        expect(request('get', { id: taskId, historyLength })).toEqual({
          id: taskId,
          historyLength,
        });
        for (const operation of ['cancel', 'subscribe'] as const)
          expect(request(operation, { id: taskId })).toEqual({ id: taskId });
        const { response } = methods(server).get('getPush')!;
        const answered = server.encode({ kind: 'pushConfig', config: push as PushConfig });
        expect(client.decodePush(over(response, answered))).toEqual(push);
      }),
    );
  });

test('an event without an id and foreign metadata stay unchanged', () => {
  const event = { task: { id: 't', metadata: { mine: 1 } } };
  expect(takeEventId(event)).toEqual([event, '']);
  expect(takeEventId(withEventId(event, '3.1'))).toEqual([event, '3.1']);
  expect(takeEventId({})).toEqual([{}, '']);
});

test('members that 0.3 omits are not added', () => {
  const { request } = methods(DIALECT_03_GRPC).get('send')!;
  const message = { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'hi' }] };
  const read = (sent: JsonObject): unknown =>
    DIALECT_03_GRPC.decode('send', over(request, sent))['configuration'];
  expect(read({ message })).toBeUndefined();
  expect(read({ message, configuration: { blocking: true } })).not.toHaveProperty(
    'returnImmediately',
  );
  expect(read({ message, configuration: { blocking: false } })).toMatchObject({
    returnImmediately: true,
  });
  const { request: get } = methods(DIALECT_03_GRPC).get('get')!;
  expect(DIALECT_03_GRPC.decode('get', over(get, { name: 'tasks/t' }))).toEqual({ id: 't' });
});

test('a lone surrogate is replaced after any number of backslashes, also in names', () => {
  const { response } = methods(DIALECT_10_GRPC).get('get')!;
  // A pattern took 93 s for 64,000 backslashes.
  for (const backslashes of ['', '\\', '\\\\', '\\'.repeat(200_000)]) {
    const text = `${backslashes}\ud83d`;
    const message = { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text }, { text: 'fine' }] };
    const task = { id: 't', contextId: 'c', history: [message], metadata: { [text]: text } };
    const whole = `${backslashes}\ufffd`;
    expect(over(response, task)).toMatchObject({
      history: [{ parts: [{ text: whole }, { text: 'fine' }] }],
      metadata: { [whole]: whole },
    });
  }
});
