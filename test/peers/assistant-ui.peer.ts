import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Served } from '../../src/serve/index.ts';
import { openKitchen } from '../outputs/scripted-agent.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { eventually } from '../support/busy.ts';

// assistant-ui with its thread, composer and message parts, rendered by React in a DOM without a
// browser, over both of its runtimes that can read our streams.

const aui = await peer('assistant-ui');

type Element = unknown;
type Component = (props: Props) => Element;
interface Props {
  readonly [name: string]: unknown;
}
interface React {
  readonly createElement: (
    type: unknown,
    props?: Props | null,
    ...children: readonly Element[]
  ) => Element;
}
interface Ui {
  readonly AssistantRuntimeProvider: Component;
  readonly ThreadPrimitive: Readonly<Record<'Root' | 'Viewport' | 'Messages', Component>>;
  readonly MessagePrimitive: Readonly<Record<'Root' | 'Parts' | 'Error', Component>>;
  readonly ComposerPrimitive: Readonly<Record<'Root' | 'Input' | 'Send', Component>>;
  readonly ErrorPrimitive: Readonly<Record<'Root' | 'Message', Component>>;
}
interface AgUi {
  readonly useAgUiRuntime: (options: Props) => unknown;
  readonly useAgUiInterrupts: () => readonly { readonly id: string }[];
  readonly useAgUiSubmitInterruptResponses: () => (responses: readonly Props[]) => Promise<void>;
}
interface AiSdk {
  readonly useChatRuntime: (options: Props) => unknown;
  readonly AssistantChatTransport: new (options: Props) => unknown;
}
interface Dom {
  readonly document: {
    createElement(name: string): Host;
    readonly body: { append(host: Host): void };
  };
  readonly Event: new (type: string, options: Props) => unknown;
  readonly HTMLTextAreaElement: { readonly prototype: object };
  readonly happyDOM: { close(): Promise<void> };
  readonly [name: string]: unknown;
}
interface Host {
  readonly textContent: string;
  querySelector(
    selector: string,
  ): (Host & { click(): void; dispatchEvent(e: unknown): void }) | null;
  querySelectorAll(selector: string): Iterable<Host & { click(): void }>;
}
interface Root {
  render(element: Element): void;
  unmount(): void;
}

/** Globals that React and assistant-ui expect. */
const GLOBALS = `window document navigator location Node Element HTMLElement HTMLIFrameElement
  HTMLInputElement HTMLTextAreaElement SVGElement DocumentFragment Document ShadowRoot Text Range
  Event CustomEvent InputEvent KeyboardEvent FocusEvent MouseEvent PointerEvent MutationObserver
  ResizeObserver IntersectionObserver NodeFilter getComputedStyle requestAnimationFrame
  cancelAnimationFrame customElements localStorage matchMedia`.split(/\s+/);

let served: Served;
let dom: Dom;

async function load<T>(name: string): Promise<T> {
  return (await aui.import(name)) as T;
}

/** A page with a thread, as in its documentation, and a button for each approval. */
async function openPage(kind: 'ai-sdk' | 'ag-ui'): Promise<Page> {
  const react = await load<React>('react');
  const ui = await load<Ui>('@assistant-ui/react');
  const { createRoot } = await load<{ createRoot: (host: Host) => Root }>('react-dom/client');
  const { createElement: h } = react;
  const { ThreadPrimitive, MessagePrimitive, ComposerPrimitive, ErrorPrimitive } = ui;
  const button = (label: string, onClick: () => unknown): Element =>
    h('button', { className: label, onClick }, label);
  const Tool: Component = ({ toolName, argsText, result, approval, respondToApproval }) => {
    const respond = respondToApproval as (answer: Props) => void;
    const asked = (approval as Props | undefined)?.['approved'] === undefined && approval;
    return h(
      'pre',
      null,
      `${String(toolName)} ${String(argsText)} ${JSON.stringify(result) ?? ''}`,
      asked ? button('allow', () => respond({ approved: true })) : null,
      asked ? button('deny', () => respond({ approved: false })) : null,
    );
  };
  const parts = {
    Text: ({ text }: Props) => h('p', null, text),
    Reasoning: ({ text }: Props) => h('i', null, text),
    tools: { Fallback: Tool },
  };
  const Message: Component = () =>
    h(
      MessagePrimitive.Root,
      null,
      h(MessagePrimitive.Parts, { components: parts }),
      h(
        MessagePrimitive.Error,
        null,
        h(ErrorPrimitive.Root, { className: 'error' }, h(ErrorPrimitive.Message)),
      ),
    );
  const messages = { UserMessage: Message, AssistantMessage: Message };
  const { useOurs, Interrupts } = kind === 'ai-sdk' ? await overAiSdk() : await overAgUi(react);
  const App: Component = () =>
    h(
      ui.AssistantRuntimeProvider,
      { runtime: useOurs() },
      h(
        ThreadPrimitive.Root,
        null,
        h(ThreadPrimitive.Viewport, null, h(ThreadPrimitive.Messages, { components: messages })),
        h(Interrupts),
        h(
          ComposerPrimitive.Root,
          null,
          h(ComposerPrimitive.Input),
          h(ComposerPrimitive.Send, { className: 'send' }, 'Send'),
        ),
      ),
    );
  const host = dom.document.createElement('div');
  dom.document.body.append(host);
  const root = createRoot(host);
  root.render(h(App));
  return new Page(host, root);
}

interface Over {
  readonly useOurs: () => unknown;
  readonly Interrupts: Component;
}

async function overAiSdk(): Promise<Over> {
  const { useChatRuntime, AssistantChatTransport } = await load<AiSdk>(
    '@assistant-ui/react-ai-sdk',
  );
  const { lastAssistantMessageIsCompleteWithApprovalResponses } = await load<Props>('ai');
  const transport = new AssistantChatTransport({ api: `${served.url}/ui/cook` });
  const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses;
  return {
    useOurs: () => useChatRuntime({ transport, sendAutomaticallyWhen }),
    Interrupts: () => null,
  };
}

async function overAgUi({ createElement: h }: React): Promise<Over> {
  const lib = await load<AgUi>('@assistant-ui/react-ag-ui');
  const { HttpAgent } = await load<{ HttpAgent: new (options: Props) => unknown }>('@ag-ui/client');
  const agent = new HttpAgent({ url: `${served.url}/ag-ui/cook` });
  const Interrupts: Component = () => {
    const asked = lib.useAgUiInterrupts();
    const submit = lib.useAgUiSubmitInterruptResponses();
    // The first call is allowed, the others are denied.
    const onClick = (): unknown =>
      submit(
        asked.map(({ id }, i) => ({
          interruptId: id,
          status: 'resolved',
          payload: { approved: i === 0 },
        })),
      );
    return asked.length > 0 ? h('button', { className: 'answer', onClick }, 'Answer') : null;
  };
  return { useOurs: () => lib.useAgUiRuntime({ agent }), Interrupts };
}

/** Waits for React, which continues after an unmount and still needs the DOM. */
async function reactIsIdle(): Promise<void> {
  const { unstable_scheduleCallback: schedule, unstable_IdlePriority: idle } = await load<{
    unstable_scheduleCallback: (priority: number, work: () => void) => void;
    unstable_IdlePriority: number;
  }>('scheduler');
  await new Promise<void>((resolve) => schedule(idle, resolve));
}

class Page implements AsyncDisposable {
  readonly host: Host;
  readonly #root: Root;

  constructor(host: Host, root: Root) {
    this.host = host;
    this.#root = root;
  }

  /** Types a text and presses the button. */
  async say(words: string): Promise<void> {
    const area = await this.find('textarea');
    const { set } = Object.getOwnPropertyDescriptor(dom.HTMLTextAreaElement.prototype, 'value') as {
      set: (value: string) => void;
    };
    set.call(area, words);
    area.dispatchEvent(new dom.Event('input', { bubbles: true }));
    await this.press('button.send:not([disabled])');
  }

  async press(selector: string): Promise<void> {
    (await this.find(selector)).click();
  }

  find(selector: string): Promise<NonNullable<ReturnType<Host['querySelector']>>> {
    return eventually(() => {
      const found = this.host.querySelector(selector);
      if (!found) throw new Error(`${selector} not found in: ${this.host.textContent}`);
      return found;
    });
  }

  texts(selector: string): readonly string[] {
    return [...this.host.querySelectorAll(selector)].map(({ textContent }) => textContent);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#root.unmount();
    await reactIsIdle();
  }
}

const SOON = { timeout: 30_000 };

suite('assistant-ui', aui.reason, () => {
  beforeAll(async () => {
    served = await openKitchen();
    const { Window } = await load<{ Window: new (options: Props) => Dom }>('happy-dom');
    dom = new Window({ url: served.url });
    for (const name of GLOBALS) vi.stubGlobal(name, name === 'window' ? dom : dom[name]);
  });
  afterAll(async () => {
    await dom?.happyDOM.close();
    vi.unstubAllGlobals();
    await served?.[Symbol.asyncDispose]();
  });

  describe.each(['ai-sdk', 'ag-ui'] as const)('over %s', (kind) => {
    test('shows reasoning, text, calls and results', async () => {
      await using page = await openPage(kind);
      await page.say('everything');
      await expect
        .poll(() => page.texts('p'), SOON)
        .toEqual(['everything', 'I look it up.', 'Three kinds of tea.']);
      expect(page.texts('i')).toEqual(['Let me think.']);
      expect(page.texts('pre')).toEqual([
        'search {"q":"tea"} {"hits":3}',
        expect.stringMatching(/^weigh {"what":"tea"} .*no scales/),
      ]);
    });

    test('a second message continues the thread', async () => {
      await using page = await openPage(kind);
      await page.say('one');
      await expect.poll(() => page.texts('p'), SOON).toEqual(['one', 'one']);
      await page.say('two');
      await expect
        .poll(() => page.texts('p'), SOON)
        .toEqual(['one', 'one', 'two', 'two after one']);
    });

    test('one approval is given and another denied on the page', async () => {
      await using page = await openPage(kind);
      await page.say('approve');
      if (kind === 'ag-ui') await page.press('button.answer');
      else {
        await page.press('button.allow');
        await eventually(() => expect(page.texts('button.deny')).toHaveLength(1));
        await page.press('button.deny');
      }
      await expect.poll(() => page.texts('p'), SOON).toEqual(['approve', 'That is decided.']);
      expect(page.texts('pre')[0]).toContain('done');
    });

    test('a failure is shown with the message of the agent', async () => {
      await using page = await openPage(kind);
      await page.say('fail');
      await expect
        .poll(() => page.texts('.error'), SOON)
        .toEqual([expect.stringContaining('the model is busy') as string]);
    });
  });
});
