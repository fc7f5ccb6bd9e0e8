// Search in pages opened from a disk, where browsers refuse workers: a hidden frame runs the script of the worker.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe"), early = [];
      let inside = null;
      this.postMessage = (data) => {
        if (inside) inside.dispatchEvent(new inside.MessageEvent("message", { data }));
        else early.push(data);
      };
      this.terminate = () => frame.remove();
      frame.hidden = true;
      frame.onload = () => {
        const window_ = frame.contentWindow, script = window_.document.createElement("script");
        window_.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        script.src = address;
        script.onload = () => { inside = window_; early.splice(0).forEach(this.postMessage); };
        script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: "cannot load " + address }));
        window_.document.body.append(script);
      };
      document.body.append(frame);
    }
  };
}
