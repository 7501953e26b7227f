import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { asObject, asString, type JsonObject } from '../../../src/json.ts';
import { PARTIAL_METHOD } from '../../../src/mcp/json-rpc/partial-results.ts';
import { SignInRequired } from '../api/requests.ts';
import controls from '../ui/controls.module.css';
import { appOf } from './app-host.ts';
import { AppView } from './app-view.tsx';
import { ArgumentsForm } from './arguments-form.tsx';
import { ResultView } from './content-view.tsx';
import { useAsking } from './server-questions.tsx';
import type { ToolConnection } from './tool-connection.ts';
import styles from './tools-page.module.css';

/** How many progress and log lines of a call are shown. */
const MAX_LINES = 200;

interface RunningCall {
  readonly number: number;
  readonly args: JsonObject;
  readonly scope: AbortController;
  readonly result: Promise<JsonObject>;
}

/** One tool: its description, a form for its arguments, and what the call sends back. */
export function ToolPanel({
  connection,
  tool,
  onError,
}: {
  readonly connection: ToolConnection;
  readonly tool: JsonObject;
  readonly onError: (error: unknown) => void;
}): VNode {
  const [call, setCall] = useState<RunningCall>();
  const [lines, setLines] = useState<readonly string[]>([]);
  const [progress, setProgress] = useState<JsonObject>();
  const [result, setResult] = useState<JsonObject>();
  const [error, setError] = useState('');
  const [isBusy, setBusy] = useState(false);
  const current = useRef<AbortController>(undefined);
  const asking = useAsking(onError);
  useEffect(() => () => current.current?.abort(), []);
  const name = String(tool['name']);

  const onMessage = ({ method, params }: JsonObject): void => {
    const given = asObject(params);
    if (method === 'notifications/progress') setProgress(given);
    else if (method === 'notifications/message')
      setLines((all) => [...all, logText(given)].slice(-MAX_LINES));
    else if (method === PARTIAL_METHOD)
      setLines((all) => [...all, `part: ${textOf(given['content'])}`].slice(-MAX_LINES));
  };
  const request = (tool: string, args: JsonObject, signal: AbortSignal): Promise<JsonObject> =>
    connection.request(
      'tools/call',
      { name: tool, arguments: args },
      { onMessage, ask: asking.ask, signal },
    );
  const start = (args: JsonObject): void => {
    current.current?.abort();
    const scope = new AbortController();
    current.current = scope;
    setLines([]);
    setProgress(undefined);
    setResult(undefined);
    setError('');
    setBusy(true);
    const running = request(name, args, scope.signal);
    setCall((last) => ({ number: (last?.number ?? 0) + 1, args, scope, result: running }));
    running
      .then(setResult, (reason: unknown) => {
        if (reason instanceof SignInRequired) return onError(reason);
        setError(scope.signal.aborted ? 'You cancelled the call.' : messageOf(reason));
      })
      .finally(() => setBusy(false));
  };
  const uri = appOf(tool);
  return (
    <article class={styles['detail']} aria-label={`Tool ${name}`} data-part="tool">
      <h2>{asString(tool['title'], name)}</h2>
      {typeof tool['description'] === 'string' && (
        <p class={styles['text']}>{tool['description']}</p>
      )}
      <Hints annotations={asObject(tool['annotations'])} />
      <ArgumentsForm
        label={`Call ${name}`}
        schema={asObject(tool['inputSchema'])}
        submit="Call"
        isBusy={isBusy}
        onSubmit={start}
      >
        {isBusy && (
          <button type="button" onClick={() => current.current?.abort()}>
            Cancel
          </button>
        )}
      </ArgumentsForm>
      {asking.view}
      {progress && <Progress {...progress} />}
      {lines.length > 0 && (
        <pre class={styles['lines']} data-part="tool-log">
          {lines.join('\n')}
        </pre>
      )}
      {error && (
        <p class={controls['error']} role="alert" data-part="tool-error">
          {error}
        </p>
      )}
      {call && uri !== undefined && (
        <AppView
          key={call.number}
          connection={connection}
          uri={uri}
          tool={tool}
          args={call.args}
          result={call.result}
          onMessage={onMessage}
          call={(other, args) => request(other, args, new AbortController().signal)}
        />
      )}
      {result && <ResultView result={result} />}
      <details>
        <summary>Definition</summary>
        <pre>{JSON.stringify(tool, null, 2)}</pre>
      </details>
    </article>
  );
}

const HINTS: Readonly<Record<string, string>> = {
  readOnlyHint: 'only reads',
  destructiveHint: 'may destroy',
  idempotentHint: 'may be repeated',
  openWorldHint: 'reaches other systems',
};

function Hints({ annotations }: { readonly annotations: JsonObject }): VNode | null {
  const known = Object.entries(HINTS).filter(([key]) => annotations[key] === true);
  if (known.length === 0) return null;
  return (
    <p class={controls['soft']}>It says that it {known.map(([, text]) => text).join(', ')}.</p>
  );
}

function Progress({ progress, total, message }: JsonObject): VNode {
  const [done, most] = [Number(progress), typeof total === 'number' ? total : undefined];
  return (
    <p data-part="tool-progress">
      <progress aria-label="Progress" value={most === undefined ? undefined : done} max={most} />{' '}
      {done}
      {most !== undefined && ` of ${most}`} {typeof message === 'string' && message}
    </p>
  );
}

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

const logText = ({ level, logger, data }: JsonObject): string =>
  `${String(level)}${typeof logger === 'string' ? ` ${logger}` : ''}: ${textOf(data)}`;

const messageOf = (reason: unknown): string =>
  reason instanceof Error ? reason.message : String(reason);
