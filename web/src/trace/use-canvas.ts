import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { onThemeChange, readTheme, type CanvasTheme } from './canvas-theme.ts';

/** What a painter gets: a context in CSS pixels, the size, and the colors. */
export interface CanvasFrame {
  readonly ctx: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;
  readonly theme: CanvasTheme;
}

export interface PaintedCanvas {
  readonly ref: RefObject<HTMLCanvasElement | null>;
  /** Paints in the next animation frame, once, however often it is called before. */
  readonly repaint: () => void;
}

/**
 * Keeps a canvas as sharp as the screen and as large as its element, and calls `paint` after a
 * resize, a change of the theme, `repaint`, and in every animation frame while `isAnimated`.
 */
export function useCanvas(paint: (frame: CanvasFrame) => void, isAnimated: boolean): PaintedCanvas {
  const ref = useRef<HTMLCanvasElement>(null);
  const latest = useRef(paint);
  latest.current = paint;
  const animated = useRef(isAnimated);
  animated.current = isAnimated;
  const schedule = useRef(() => {});

  useEffect(() => {
    const canvas = ref.current;
    const ctx = canvas?.getContext('2d');
    if (!canvas || !ctx) return undefined;
    let theme = readTheme(canvas.parentElement ?? document.body);
    let frame = 0;
    const draw = (): void => {
      frame = 0;
      const { clientWidth: width, clientHeight: height } = canvas;
      if (width > 0 && height > 0) {
        const scale = devicePixelRatio || 1;
        if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
        if (canvas.height !== Math.round(height * scale))
          canvas.height = Math.round(height * scale);
        ctx.setTransform(scale, 0, 0, scale, 0, 0);
        latest.current({ ctx, width, height, theme });
      }
      if (animated.current) schedule.current();
    };
    schedule.current = () => {
      frame ||= requestAnimationFrame(draw);
    };
    const stopTheme = onThemeChange(() => {
      theme = readTheme(canvas.parentElement ?? document.body);
      schedule.current();
    });
    const observer = new ResizeObserver(() => schedule.current());
    observer.observe(canvas);
    schedule.current();
    return () => {
      stopTheme();
      observer.disconnect();
      cancelAnimationFrame(frame);
      schedule.current = () => {};
    };
  }, []);

  useEffect(() => schedule.current());
  return { ref, repaint: () => schedule.current() };
}

/** Diagonal lines for waits, as a pattern. */
export function hatchPattern(
  ctx: CanvasRenderingContext2D,
  color: string,
): CanvasPattern | undefined {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const pen = tile.getContext('2d');
  if (!pen) return undefined;
  pen.strokeStyle = color;
  pen.lineWidth = 1.2;
  pen.globalAlpha = 0.4;
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift, 8);
    pen.lineTo(shift + 8, 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, 'repeat') ?? undefined;
}
