// What the packages of others make of our streams: they throw, or the stream is theirs.
import type { OutputMessage } from '../../src/outputs/index.ts';
import type { Peer } from '../peers.ts';

export interface Reader {
  /** Throws what the package's schema or verifier says against the events. */
  read(events: readonly OutputMessage[]): Promise<void>;
}

interface Client {
  readonly verifyEvents: () => (source: unknown) => { subscribe(observer: object): void };
}

interface Schema {
  parse(value: unknown): unknown;
}

/** The schemas and the verifier of both lines of AG-UI. */
export async function agUiReaders(peer: Peer): Promise<Readonly<Record<'1.0' | '0.0.59', Reader>>> {
  const { from } = (await peer.import('rxjs')) as { from: (events: readonly unknown[]) => unknown };
  const make = async (client: string, schemas: string, name: string): Promise<Reader> => {
    const { verifyEvents } = (await peer.import(client)) as unknown as Client;
    const schema = (await peer.import(schemas))[name] as Schema;
    return {
      read: (events) =>
        new Promise((resolve, reject) => {
          const parsed = JSON.parse(JSON.stringify(events)) as OutputMessage[];
          for (const event of parsed) schema.parse(event);
          verifyEvents()(from(parsed)).subscribe({ error: reject, complete: resolve });
        }),
    };
  };
  return {
    '1.0': await make('@ag-ui/client', '@ag-ui/core/schemas', 'EventSchema'),
    '0.0.59': await make('ag-ui-client-0', 'ag-ui-core-0', 'EventSchemas'),
  };
}

/** The AI SDK's own schema and reader; gives the message that they end with. */
export async function readUi(
  peer: Peer,
  sdk = 'ai',
): Promise<(chunks: readonly OutputMessage[]) => Promise<OutputMessage | undefined>> {
  const { uiMessageChunkSchema, readUIMessageStream } = (await peer.import(sdk)) as unknown as {
    uiMessageChunkSchema: () => {
      readonly validate: (value: unknown) => Promise<{ success: boolean; error?: Error }>;
    };
    readonly readUIMessageStream: (options: object) => AsyncIterable<OutputMessage>;
  };
  const { validate } = uiMessageChunkSchema();
  return async (chunks) => {
    const parsed = JSON.parse(JSON.stringify(chunks)) as OutputMessage[];
    for (const chunk of parsed) {
      const { success, error } = await validate(chunk);
      if (!success) throw error ?? new Error('no chunk');
    }
    // An encoded failure of the run is not a failure of the stream.
    const stream = ReadableStream.from(parsed.filter(({ type }) => type !== 'error'));
    let last: OutputMessage | undefined;
    for await (const message of readUIMessageStream({ stream, terminateOnError: true }))
      last = message;
    return last;
  };
}
