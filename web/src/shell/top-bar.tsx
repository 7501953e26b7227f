import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import styles from './top-bar.module.css';
import { Wordmark } from './wordmark.tsx';

export type View = 'runs' | 'inbox' | 'tools' | 'task';

/** The name, the views, and what concerns all of them. */
export function TopBar({
  view,
  waiting,
  isOnline,
  hasTools,
  onSignOut,
}: {
  readonly view: View;
  /** How many runs wait for a person. */
  readonly waiting: number;
  readonly isOnline: boolean;
  /** Whether the server has tool servers to show. */
  readonly hasTools: boolean;
  /** Signs out; undefined on a server without sign-in. */
  readonly onSignOut: (() => void) | undefined;
}): VNode {
  return (
    <header class={styles['bar']}>
      <a class={styles['skip']} href="#main" onClick={skip}>
        Skip to the content
      </a>
      <a class={styles['home']} href="#" aria-label="Duolane, all runs">
        <Wordmark />
      </a>
      <nav class={styles['views']} aria-label="Views">
        <a href="#" aria-current={view === 'runs' ? 'page' : undefined}>
          Runs
        </a>
        <a href="#/inbox" aria-current={view === 'inbox' ? 'page' : undefined}>
          Inbox{waiting > 0 && <span class={styles['count']}>{waiting}</span>}
        </a>
        {hasTools && (
          <a href="#/tools" aria-current={view === 'tools' ? 'page' : undefined}>
            Tools
          </a>
        )}
      </nav>
      {!isOnline && (
        <span class={styles['offline']} role="alert" data-part="offline">
          Cannot reach the server. Retrying …
        </span>
      )}
      <span class={styles['end']}>
        <ThemeButton />
        {onSignOut && (
          <button type="button" onClick={onSignOut}>
            Sign out
          </button>
        )}
      </span>
    </header>
  );
}

/** The address has the task in its hash, so the link must not change it. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

const KEY = 'duolane-theme';
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];
const SIGNS: Readonly<Record<Theme, string>> = { auto: '◐', light: '☼', dark: '☾' };

/** Applies the theme that the user chose before; call it before the first drawing. */
export function applyTheme(theme: string | null = readTheme()): void {
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset['theme'] = theme;
  else delete document.documentElement.dataset['theme'];
}

function readTheme(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // the user has blocked storage
  }
}

function ThemeButton(): VNode {
  const [theme, setTheme] = useState<Theme>(
    () => THEMES.find((each) => each === readTheme()) ?? 'auto',
  );
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto';
  return (
    <button
      type="button"
      title={`Theme: ${theme}. Switch to ${next}.`}
      aria-label={`Theme: ${theme}`}
      onClick={() => {
        setTheme(next);
        applyTheme(next);
        try {
          localStorage.setItem(KEY, next);
        } catch {
          // The user has blocked storage: the choice holds until the page is closed.
        }
      }}
    >
      {SIGNS[theme]}
    </button>
  );
}
