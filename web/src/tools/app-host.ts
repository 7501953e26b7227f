import { asObject, asObjects, asStrings, isObject, type JsonObject } from '../../../src/json.ts';
import { isAppAddress } from '../../../src/serve/app-address.ts';
import type { ToolConnection } from './tool-connection.ts';

/** The version of MCP Apps that the page supports. */
const APPS_VERSION = '2026-01-26';
const MAX_HEIGHT = 800;
/** How many requests of an app may wait at the same time. */
const MAX_WAITING = 16;
/** How long an app may take to end by itself. */
const TEARDOWN_MS = 500;
const UNSUPPORTED = -32601;
const REFUSED = -32000;

/** An app of a tool server: its document, and the addresses that it may reach. */
export interface AppDocument {
  readonly uri: string;
  readonly html: string;
  /** The address of its frame. */
  readonly src: string;
  /** The addresses that its server declares. */
  readonly reaches: readonly string[];
}

/** What an app wants to do, for the user to allow. */
export interface AppWish {
  readonly what: string;
  readonly data?: unknown;
  /** The address of a link, which only a click of the user can open. */
  readonly link?: string;
}

export interface AppHostOptions {
  readonly connection: ToolConnection;
  readonly app: AppDocument;
  readonly tool: JsonObject;
  readonly args: JsonObject;
  /** The result of the call that the app shows; rejects if the call failed. */
  readonly result: Promise<JsonObject>;
  /** Asks the user; resolves with whether the app may. */
  readonly allow: (wish: AppWish) => Promise<boolean>;
  /** Calls a tool of the server for the app, with the questions of the tool to the user. */
  readonly call: (name: string, args: JsonObject) => Promise<JsonObject>;
  /** Gets the log lines of the app. */
  readonly onMessage: (message: JsonObject) => void;
  readonly onHeight: (height: number) => void;
  /** The app has ended, by its own wish or because it left its document. */
  readonly onEnd: (reason: string) => void;
}

/** The address of the app that shows the results of a tool. */
export function appOf({ _meta: meta }: JsonObject): string | undefined {
  const { ui, 'ui/resourceUri': older } = asObject(meta);
  const uri = asObject(ui)['resourceUri'] ?? older;
  return typeof uri === 'string' && uri.startsWith('ui://') ? uri : undefined;
}

/** Reads the document of an app. Throws if the server has none, or declares an invalid address. */
export async function readApp(
  connection: ToolConnection,
  uri: string,
  signal: AbortSignal,
): Promise<AppDocument> {
  const { contents } = await connection.request('resources/read', { uri }, { signal });
  const found = asObjects(contents).find(({ mimeType }) =>
    /^text\/html\s*;\s*profile=mcp-app$/i.test(String(mimeType)),
  );
  if (!found) throw new Error(`${uri} has no content of type text/html;profile=mcp-app.`);
  const settings = asObject(found['_meta'])['ui'] ?? (await listed(connection, uri, signal));
  const csp = asObject(asObject(settings)['csp']);
  const query = new URLSearchParams();
  for (const purpose of ['connect', 'resource', 'frame', 'baseUri'] as const)
    for (const address of asStrings(csp[`${purpose}Domains`])) {
      if (!isAppAddress(address))
        throw new Error(`The app declares "${address}"; only https and wss addresses are allowed.`);
      query.append(purpose === 'baseUri' ? 'base' : purpose, address);
    }
  return { uri, html: htmlOf(found), src: `/mcp-app?${query}`, reaches: [...query.values()] };
}

/** The settings in the list of resources, for a server that omits them in the content. */
async function listed(
  connection: ToolConnection,
  uri: string,
  signal: AbortSignal,
): Promise<unknown> {
  const { resources } = await connection.request('resources/list', {}, { signal });
  const found = asObjects(resources).find((each) => each['uri'] === uri);
  return asObject(found?.['_meta'])['ui'];
}

function htmlOf({ text, blob }: JsonObject): string {
  if (typeof text === 'string') return text;
  const bytes = Uint8Array.from(atob(String(blob)), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

/**
 * The host of one app, as MCP Apps defines it. Only messages of the frame's own window count, not
 * those of frames inside it. Returns a function that ends the app.
 */
export function hostApp(frame: HTMLIFrameElement, options: AppHostOptions): () => Promise<void> {
  const { app, tool, args, result, onMessage, onHeight, onEnd } = options;
  let loads = 0;
  let waiting = 0;
  let isReady = false;
  let isOver = false;
  let ended = (): void => {};

  const send = (message: JsonObject): void =>
    // The origin of the frame is opaque, so it has no name.
    frame.contentWindow?.postMessage({ jsonrpc: '2.0', ...message }, '*');
  const notify = (method: string, params: JsonObject): void =>
    send({ method: `ui/notifications/${method}`, params });
  const close = (): void => {
    isOver = true;
    removeEventListener('message', receive);
    frame.removeEventListener('load', loaded);
    stopTheme();
  };
  const end = (reason: string): void => {
    if (isOver) return;
    close();
    onEnd(reason);
  };

  /** The first load is the empty document, the second the app. After a third, the app has left. */
  const loaded = (): void => {
    loads += 1;
    if (loads === 1) notify('sandbox-resource-ready', { html: app.html });
    if (loads > 2) end('The app tried to open another address and was closed.');
  };

  const begin = (): void => {
    if (isReady) return;
    isReady = true;
    notify('tool-input', { arguments: args });
    result.then(
      (value) => isOver || notify('tool-result', value),
      (error: unknown) => isOver || notify('tool-cancelled', { reason: String(error) }),
    );
  };

  const notified = (method: string, params: JsonObject): void => {
    const { height } = params;
    if (method === 'ui/notifications/initialized') begin();
    else if (method === 'notifications/message') onMessage({ method, params });
    else if (method === 'ui/notifications/request-teardown') end('The app has ended.');
    else if (method === 'ui/notifications/size-changed' && typeof height === 'number')
      onHeight(Math.min(Math.max(height, 40), MAX_HEIGHT));
  };

  function receive({ source, origin, data }: MessageEvent): void {
    if (source !== frame.contentWindow || origin !== 'null' || isOver) return;
    if (!isObject(data) || data['jsonrpc'] !== '2.0') return;
    const { id, method, params } = data;
    if (typeof method !== 'string') return id === TEARDOWN_ID ? ended() : undefined;
    if (typeof id !== 'string' && typeof id !== 'number') return notified(method, asObject(params));
    if (waiting >= MAX_WAITING)
      return send({ id, error: { code: REFUSED, message: 'too many requests of the app wait' } });
    waiting += 1;
    respond(method, asObject(params), options)
      .then(
        (value) => send({ id, result: value }),
        (error: unknown) => send({ id, error: errorOf(error) }),
      )
      .finally(() => (waiting -= 1));
  }

  addEventListener('message', receive);
  frame.addEventListener('load', loaded);
  const stopTheme = onTheme((theme) => isReady && notify('host-context-changed', { theme }));
  frame.src = app.src;
  return async () => {
    if (isOver) return;
    const answered = new Promise<void>((resolve) => {
      ended = resolve;
      setTimeout(resolve, TEARDOWN_MS);
    });
    if (isReady) {
      send({ id: TEARDOWN_ID, method: 'ui/resource-teardown', params: {} });
      await answered;
    }
    close();
  };

  function context(): JsonObject {
    return {
      toolInfo: { tool },
      theme: themeNow(),
      displayMode: 'inline',
      availableDisplayModes: ['inline'],
      containerDimensions: { width: frame.clientWidth, maxHeight: MAX_HEIGHT },
      locale: navigator.language,
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      platform: 'web',
      userAgent: 'duolane',
    };
  }

  /** Answers a request of the app. What it may not do by itself needs the user. */
  async function respond(
    method: string,
    params: JsonObject,
    { connection, allow, call }: AppHostOptions,
  ): Promise<JsonObject> {
    switch (method) {
      case 'ui/initialize':
        return {
          protocolVersion: APPS_VERSION,
          hostInfo: { name: 'duolane', version: '0' },
          hostCapabilities: {
            openLinks: {},
            serverTools: {},
            serverResources: {},
            logging: {},
            sandbox: {},
          },
          hostContext: context(),
        };
      case 'ping':
        return {};
      case 'ui/request-display-mode':
        return { mode: 'inline' };
      case 'ui/open-link': {
        const { url: link } = params;
        if (typeof link !== 'string' || !/^https?:\/\//i.test(link)) return { isError: true };
        return (await allow({ what: 'open a link', link })) ? {} : { isError: true };
      }
      case 'tools/call': {
        const { name, arguments: given } = params;
        const found = await findTool(connection, name);
        if (!found || !mayCall(found))
          throw new Refusal(-32602, `tool "${String(name)}" not found; it may not be for apps`);
        if (!(await allow({ what: `call the tool ${String(name)}`, data: given })))
          throw new Refusal(REFUSED, 'the user refused the call');
        return call(String(name), asObject(given));
      }
      case 'resources/read':
        if (!(await allow({ what: `read ${String(params['uri'])}` })))
          throw new Refusal(REFUSED, 'the user refused to read the resource');
        return connection.request(method, { uri: params['uri'] });
      case 'resources/list':
      case 'resources/templates/list':
      case 'prompts/list':
        return connection.request(method, params);
      default:
        throw new Refusal(UNSUPPORTED, `the page does not support ${method}`);
    }
  }
}

const TEARDOWN_ID = 'teardown';

/** An error that the app gets with its number. */
class Refusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const errorOf = (error: unknown): JsonObject => ({
  code: error instanceof Refusal ? error.code : -32603,
  message: error instanceof Error ? error.message : String(error),
});

/** A tool is for apps unless its server lists only others. */
function mayCall({ _meta: meta }: JsonObject): boolean {
  const { visibility } = asObject(asObject(meta)['ui']);
  return visibility === undefined || asStrings(visibility).includes('app');
}

async function findTool(
  connection: ToolConnection,
  name: unknown,
): Promise<JsonObject | undefined> {
  let cursor: unknown;
  do {
    const page = await connection.request('tools/list', cursor === undefined ? {} : { cursor });
    const found = asObjects(page['tools']).find((each) => each['name'] === name);
    if (found) return found;
    cursor = page['nextCursor'];
  } while (typeof cursor === 'string');
  return undefined;
}

const DARK = '(prefers-color-scheme: dark)';

/** The theme that the user chose, else that of the browser. */
function themeNow(): 'light' | 'dark' {
  const { theme } = document.documentElement.dataset;
  if (theme === 'light' || theme === 'dark') return theme;
  return matchMedia(DARK).matches ? 'dark' : 'light';
}

/** Reports changes of the theme. Returns a function that stops it. */
function onTheme(changed: (theme: 'light' | 'dark') => void): () => void {
  const report = (): void => changed(themeNow());
  const browser = matchMedia(DARK);
  const observer = new MutationObserver(report);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  browser.addEventListener('change', report);
  return () => {
    observer.disconnect();
    browser.removeEventListener('change', report);
  };
}
