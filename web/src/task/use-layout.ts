import { useEffect, useState } from 'preact/hooks';

/** How much room there is: everything side by side, two tabs, or one panel at a time. */
export type PageLayout = 'wide' | 'medium' | 'phone';

const WIDE = '(min-width: 75rem)';
const MEDIUM = '(min-width: 47rem)';

const current = (): PageLayout =>
  matchMedia(WIDE).matches ? 'wide' : matchMedia(MEDIUM).matches ? 'medium' : 'phone';

export function useLayout(): PageLayout {
  const [layout, setLayout] = useState(current);
  useEffect(() => {
    const change = (): void => setLayout(current());
    const queries = [WIDE, MEDIUM].map((query) => matchMedia(query));
    for (const query of queries) query.addEventListener('change', change);
    return () => {
      for (const query of queries) query.removeEventListener('change', change);
    };
  }, []);
  return layout;
}
