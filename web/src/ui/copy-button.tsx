import type { VNode } from 'preact';
import { useState } from 'preact/hooks';

const SHOWN_MS = 1500;

/** A button that copies a text, made only when it is pressed. */
export function CopyButton({
  label,
  title,
  text,
}: {
  readonly label: string;
  readonly title?: string;
  readonly text: () => string;
}): VNode {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  const copy = async (): Promise<void> => {
    try {
      await writeClipboard(text());
      setState('copied');
    } catch {
      setState('failed'); // the browser refuses access to the clipboard
    }
    setTimeout(() => setState('idle'), SHOWN_MS);
  };
  return (
    <button type="button" title={title} onClick={() => void copy()}>
      {state === 'idle' ? label : state === 'copied' ? 'Copied' : 'Not copied'}
    </button>
  );
}

/** The clipboard of the browser exists on secure pages only, so another way is needed elsewhere. */
async function writeClipboard(text: string): Promise<void> {
  if (isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (!done) throw new Error('cannot copy: the browser refused; select the text and copy it');
}
