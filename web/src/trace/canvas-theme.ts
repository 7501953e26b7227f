/** The colors of the canvas, read from the tokens of the style sheet. */
export type CanvasTheme = Readonly<Record<ThemeColor, string>>;

const COLORS = [
  'ground',
  'panel',
  'ink',
  'soft',
  'edge',
  'grid',
  'message',
  'message-fill',
  'control',
  'control-fill',
  'good',
  'bad',
  'bad-fill',
  'warn',
  'wait-fill',
  'faint',
  'lane',
  'select',
] as const;
type ThemeColor = (typeof COLORS)[number];

/**
 * Reads the colors as the browser resolves them for the element: a canvas knows neither custom
 * properties nor `light-dark()`.
 */
export function readTheme(element: HTMLElement): CanvasTheme {
  const probe = document.createElement('i');
  probe.hidden = true;
  element.append(probe);
  const theme = Object.fromEntries(
    COLORS.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    }),
  );
  probe.remove();
  return theme as CanvasTheme;
}

/** Calls the listener when the theme changes. Returns a function that stops it. */
export function onThemeChange(listener: () => void): () => void {
  const media = matchMedia('(prefers-color-scheme: dark)');
  media.addEventListener('change', listener);
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  return () => {
    media.removeEventListener('change', listener);
    observer.disconnect();
  };
}
